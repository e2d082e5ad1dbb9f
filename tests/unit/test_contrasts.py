"""Level effects of split-plot data.

Known answers, agreement with statsmodels, and the rates at which they err.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse, stats

from headrace.analysis.contrasts import Contrasts, by_blocks, by_model, plots_together
from headrace.analysis.effects import cost_estimate


def split_plot(
    random: np.random.Generator,
    *,
    repeats: int = 3,
    hard: tuple[float, ...] = (0.0, 0.0, 0.0),
    easy: tuple[float, ...] = (0.0, 0.0),
    slots: int = 4,
    plot_sigma: float = 0.05,
    sigma: float = 0.02,
) -> pd.DataFrame:
    """Trials of a split-plot design.

    Whole plots by `hard` levels, within them `easy` levels and slots with a curve of their own.
    """
    rows: list[dict[str, Any]] = []
    plots = itertools.count()
    for repeat in range(repeats):
        for number, effect in enumerate(hard):
            plot, plot_noise = next(plots), random.normal(0, plot_sigma)
            for (easy_number, easy_effect), slot in itertools.product(
                enumerate(easy), range(slots)
            ):
                odd = (
                    (slot - (slots - 1) / 2)
                    * (easy_number - (len(easy) - 1) / 2)
                    * (number - (len(hard) - 1) / 2)
                )
                curve = np.log1p(slot) + 0.1 * odd
                y = 5 + effect + easy_effect + curve + plot_noise + random.normal(0, sigma)
                rows.append(
                    {
                        "y": y,
                        "hard": number,
                        "easy": easy_number,
                        "slots": slot,
                        "repeat": repeat,
                        "plot": plot,
                        "curve": curve,
                    }
                )
    return pd.DataFrame(rows)


def blocks(rows: pd.DataFrame, factor: str) -> Contrasts:
    others = [name for name in ("hard", "easy", "slots") if name != factor]
    context = rows.groupby(others).ngroup().to_numpy()
    found = by_blocks(
        rows["y"].to_numpy(),
        rows[factor].to_numpy(),
        rows[factor].nunique(),
        context,
        rows["repeat"].to_numpy(),
        rows["plot"].to_numpy(),
    )
    assert found is not None
    return found


def test_effects_without_noise_are_exact() -> None:
    rows = split_plot(
        np.random.default_rng(1), hard=(0.3, 0.0, -0.3), easy=(0.1, -0.1), plot_sigma=0, sigma=0
    )
    rows["y"] -= rows["curve"]
    assert blocks(rows, "hard").effects == pytest.approx([0.3, 0.0, -0.3])
    assert blocks(rows, "easy").effects == pytest.approx([0.1, -0.1])
    assert blocks(rows, "easy").p_value is None


def test_error_terms_are_those_of_the_design() -> None:
    rows = split_plot(np.random.default_rng(2))
    assert blocks(rows, "hard").error_term == "whole plots"
    assert blocks(rows, "easy").error_term == "trials"
    assert blocks(rows, "hard").freedom == (3 - 1) * (3 - 1)
    assert blocks(rows, "easy").freedom == 3 * 4 * (3 - 1) * (2 - 1)


def test_whole_plot_analysis_agrees_with_anova_of_plot_means() -> None:
    rows = split_plot(np.random.default_rng(3), hard=(0.2, 0.0, -0.1), repeats=4)
    ours = blocks(rows, "hard")
    means = rows.groupby(["hard", "repeat"], as_index=False)["y"].mean()
    fit = sm.OLS.from_formula("y ~ C(hard) + C(repeat)", means).fit()
    table = sm.stats.anova_lm(fit, typ=2)
    assert ours.f == pytest.approx(table.loc["C(hard)", "F"])
    assert ours.p_value == pytest.approx(table.loc["C(hard)", "PR(>F)"])
    # the standard error of a difference of two levels, as statsmodels has it
    assert np.sqrt(ours.variance) == pytest.approx(fit.bse["C(hard)[T.1]"])


def test_within_plot_analysis_agrees_with_anova_within_combinations() -> None:
    rows = split_plot(np.random.default_rng(4), easy=(0.0, 0.05, 0.1), repeats=5)
    ours = blocks(rows, "easy")
    # each combination of the other factors is a randomised block design of its own; errors are
    # pooled
    residual, freedom = 0.0, 0
    for _, group in rows.groupby(["hard", "slots"]):
        fit = sm.OLS.from_formula("y ~ C(easy) + C(repeat)", group).fit()
        residual, freedom = residual + fit.ssr, freedom + int(fit.df_resid)
    assert ours.freedom == freedom
    assert ours.variance == pytest.approx(2 * residual / freedom / len(rows) * 3)


def test_only_complete_blocks_count() -> None:
    rows = split_plot(np.random.default_rng(5))
    lost = (rows["easy"] == 1) & (rows["slots"] == 3) & (rows["hard"] == 0) & (rows["repeat"] == 0)
    found = blocks(rows[~lost].reset_index(drop=True), "easy")
    assert len(found.used) == len(rows) - 2
    never = rows[~((rows["easy"] == 1) & (rows["slots"] > 0))].reset_index(drop=True)
    assert len(blocks(never, "easy").used) == 3 * 3 * 2


def test_one_repeat_takes_the_other_factors_for_error() -> None:
    rows = split_plot(np.random.default_rng(6), repeats=1)
    found = blocks(rows, "easy")
    assert found.error_term == "combinations of the other factors (one repeat)"
    assert found.freedom == 3 * 4 - 1


@pytest.mark.slow
@pytest.mark.parametrize("factor", ["hard", "easy"])
def test_by_chance_alone_few_effects_are_significant(factor: str) -> None:
    """Type I error: with no effect, p < 0.05 in one study of twenty. Noise of whole plots five
    times that of trials, so that the wrong error term would call most of the hard effects
    significant."""
    random = np.random.default_rng(7)
    studies = 200
    p_values = [
        blocks(split_plot(random, plot_sigma=0.1, sigma=0.02), factor).p_value or 1.0
        for _ in range(studies)
    ]
    # 200 studies at 5 %: 10 expected, and outside 2 … 21 in fewer than one of a thousand runs of a
    # right method
    low, high = stats.binom.ppf([0.0005, 0.9995], studies, 0.05)
    assert low <= sum(p < 0.05 for p in p_values) <= high
    assert stats.kstest(p_values, "uniform").pvalue > 0.001


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factor", "truth"), [("hard", (0.08, 0.0, -0.08)), ("easy", (0.03, -0.03))]
)
def test_intervals_of_a_cost_cover_the_truth(factor: str, truth: tuple[float, ...]) -> None:
    """Coverage: nine or more of ten studies.

    The interval is for all pairs at once, so at least its confidence.
    """
    random = np.random.default_rng(8)
    studies, covered = 200, 0
    cost = -np.expm1(truth[-1] - truth[0])
    for _ in range(studies):
        rows = split_plot(random, **{factor: truth}, plot_sigma=0.03, repeats=4)
        rows["y"] -= rows["curve"]
        found = blocks(rows, factor)
        distance = float(found.effects[0] - found.effects[-1])
        pairs = len(truth) * (len(truth) - 1) // 2
        estimate = cost_estimate(distance, found.variance, found.freedom, pairs, 0.95, False, ())
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= cost <= estimate.high
    assert covered >= stats.binom.ppf(0.0005, studies, 0.95)


@pytest.mark.parametrize("factor", ["hard", "easy"])
def test_a_model_of_a_fraction_finds_the_effects(factor: str) -> None:
    rows = split_plot(
        np.random.default_rng(9),
        hard=(0.2, 0.0, -0.2),
        easy=(0.1, 0.0, -0.1),
        repeats=6,
        plot_sigma=0.01,
    )
    rows["y"] -= rows["curve"]
    fraction = rows[(rows["hard"] + rows["easy"] + rows["slots"]) % 3 == 0].reset_index(drop=True)
    truth = {"hard": [0.2, 0.0, -0.2], "easy": [0.1, 0.0, -0.1]}[factor]
    others = fraction[[name for name in ("hard", "easy", "slots") if name != factor]]
    found = by_model(
        fraction["y"].to_numpy(),
        fraction[factor].to_numpy(),
        3,
        others,
        fraction["plot"].to_numpy(),
    )
    assert found is not None
    assert found.effects == pytest.approx(truth, abs=4 * np.sqrt(found.variance))
    assert (found.p_value or 1) < 1e-6
    assert found.error_term.startswith("whole plots" if factor == "hard" else "trials")


def test_a_model_errs_no_more_than_it_says() -> None:
    random = np.random.default_rng(10)
    for factor in ("hard", "easy"):
        wrong = 0
        for _ in range(150):
            rows = split_plot(random, easy=(0.0, 0.0, 0.0), plot_sigma=0.1, repeats=4)
            rows["y"] -= rows["curve"]
            fraction = rows[(rows["hard"] + rows["easy"] + rows["slots"]) % 3 == 0].reset_index(
                drop=True
            )
            others = fraction[[name for name in ("hard", "easy", "slots") if name != factor]]
            found = by_model(
                fraction["y"].to_numpy(),
                fraction[factor].to_numpy(),
                3,
                others,
                fraction["plot"].to_numpy(),
            )
            assert found is not None
            wrong += (found.p_value or 1.0) < 0.05
        low, high = stats.binom.ppf([0.0005, 0.9995], 150, 0.05)
        assert low <= wrong <= high


def test_a_model_that_cannot_tell_factors_apart_says_so() -> None:
    y = np.array([1.0, 2.0, 1.1, 2.1])
    level = np.array([0, 1, 0, 1])
    same = pd.DataFrame({"other": [0, 1, 0, 1]})
    assert by_model(y, level, 2, same, np.arange(4)) is None


def test_contexts_that_share_whole_plots_form_one_group() -> None:
    """Equal to SciPy's connected components, numbers included, also for long chains of plots."""
    random = np.random.default_rng(5)
    chain = np.repeat(np.arange(12), 2)
    cases = [
        (np.array([0, 1, 2, 3]), np.array([7, 8, 7, 9])),
        (chain[1:], random.permutation(12)[chain[:-1]]),
        *((random.integers(0, 30, 40), random.integers(0, most, 40)) for most in (3, 20, 60)),
    ]
    for context, plot in cases:
        edges = sparse.coo_matrix((np.ones(len(plot)), (context, 100 + plot)), shape=(200, 200))
        _, part = sparse.csgraph.connected_components(edges, directed=False)
        numbers = np.unique(part[context], return_inverse=True)[1]
        assert plots_together(context, plot).tolist() == numbers.tolist()


def test_a_model_agrees_with_least_squares_of_indicators() -> None:
    rows = split_plot(np.random.default_rng(12), easy=(0.0, 0.05, 0.1), plot_sigma=0)
    y, others = rows["y"].to_numpy(), rows[["hard", "slots"]]
    ours = by_model(y, rows["easy"].to_numpy(), 3, others, np.arange(len(y)))
    assert ours is not None
    fit = sm.OLS.from_formula("y ~ C(easy) + C(hard) + C(slots)", rows).fit()
    table = sm.stats.anova_lm(fit, typ=2)
    assert ours.f == pytest.approx(table.loc["C(easy)", "F"])
    assert ours.freedom == fit.df_resid
    assert ours.effects[1] - ours.effects[0] == pytest.approx(fit.params["C(easy)[T.1]"])
    assert np.sqrt(ours.variance) == pytest.approx(fit.bse["C(easy)[T.1]"])


def test_a_value_that_is_the_same_in_every_trial_is_no_lack_of_repeats() -> None:
    """Without scatter there is an error term of 0, also where trials are missing."""
    level = np.array([0, 0, 1, 1, 1, 2])
    others = pd.DataFrame({"slots": [1, 4, 1, 4, 4, 1]})
    found = by_model(np.zeros(6), level, 3, others, np.arange(6))
    assert found is not None
    assert (found.variance, found.freedom) == (0.0, 2)
    assert list(found.effects) == [0.0, 0.0, 0.0]
