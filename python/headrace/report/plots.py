"""Static figures for papers, with matplotlib: rate and efficiency against slots, ledger bars.

PDF for LaTeX, and also SVG and PNG.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from headrace.analysis.findings import Curve, Findings
from headrace.analysis.metrics import LEDGER
from headrace.metrics.shown import show
from headrace.palette import CURVE_COLOURS, GREY, LEDGER_COLOURS
from headrace.report import wording
from headrace.report.numbers import NARROW_SPACE
from headrace.report.own_files import FIGURE_KINDS, MAKER
from headrace.report.select import shown_curves
from headrace.whole_file import whole

_MARKERS = ("o", "s", "^", "D", "v", "h", "*", "P")


def _axes(width_in: float, height_in: float) -> tuple[Any, Any]:
    # matplotlib's object interface needs no global state and no display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def space_thousands(axes: Any) -> None:
    """Write the numbers on both axes with narrow spaces between thousands."""
    from matplotlib.ticker import FuncFormatter

    def text(value: float, _: int) -> str:
        return f"{value:,.12g}".replace(",", NARROW_SPACE).replace("-", "−")

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(text))


def _save(figure: Any, folder: Path, name: str) -> None:
    # Without dates and random ids, the same findings give the same bytes.
    about = {
        "pdf": {"CreationDate": None, "Creator": MAKER},
        "svg": {"Date": None, "Creator": MAKER},
        "png": {"Software": MAKER},
    }
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        for kind in FIGURE_KINDS:
            whole(
                folder / f"{name}.{kind}",
                partial(figure.savefig, format=kind, dpi=200, metadata=about[kind]),
            )


def _against_load(curves: list[Curve], name: str, bound: float | None) -> Any:
    having = [c for c in curves if any(name in p.metrics for p in c.points)]
    if not having:
        return None
    shown = show(
        name, max(p.metrics[name].value for c in having for p in c.points if name in p.metrics)
    )
    figure, axes = _axes(4.8, 3.2)
    for index, curve in enumerate(having):
        points = [p for p in curve.points if name in p.metrics]
        estimates = [p.metrics[name] for p in points]
        values = [e.value / shown.divisor for e in estimates]
        down = [(e.value - e.low) / shown.divisor if e.low is not None else 0.0 for e in estimates]
        up = [(e.high - e.value) / shown.divisor if e.high is not None else 0.0 for e in estimates]
        axes.errorbar(
            [p.load for p in points],
            values,
            yerr=[down, up],
            label=curve.label,
            color=CURVE_COLOURS[index],
            marker=_MARKERS[index],
            markersize=5,
            linewidth=1.4,
            capsize=2.5,
        )
        distrusted = [p for p in curve.distrusted if name in p.metrics]
        axes.plot(
            [p.load for p in distrusted],
            [p.metrics[name].value / shown.divisor for p in distrusted],
            linestyle="none",
            marker="x",
            color=GREY,
            markersize=6,
        )
    if bound is not None:
        axes.axhline(bound, color="black", linestyle="--", linewidth=0.8)
    axes.set_xlabel(wording.axis_title(having))
    axes.set_ylabel(shown.heading)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    space_thousands(axes)
    axes.grid(color="#e6e6e6")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False)
    return figure


def curves_svg(findings: Findings, name: str) -> str:
    """Return a metric against the load, as the text of an SVG picture; empty without a value."""
    from io import StringIO

    from matplotlib import rc_context

    shown = shown_curves(findings)
    drawn = [shown.curves[index] for picked in shown.drawn.values() for index in picked]
    figure = _against_load(drawn[: len(_MARKERS)], name, None)
    if figure is None:
        return ""
    text = StringIO()
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    # A document's head has no place within HTML.
    return text.getvalue()[text.getvalue().index("<svg") :]


def _ledger(curves: list[Curve]) -> Any:
    points = [(curve, point) for curve in curves for point in curve.points]
    if not points:
        return None
    figure, axes = _axes(6.4, 0.8 + 0.24 * len(points))
    labels = [f"{curve.label}, {point.load}" for curve, point in points]
    left = [0.0] * len(points)
    for name in LEDGER:
        widths = [point.ledger.get(name, 0.0) * 100 for _, point in points]
        axes.barh(
            labels,
            widths,
            left=left,
            color=LEDGER_COLOURS[name],
            label=wording.LEDGER_TITLES[name],
            height=0.8,
        )
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("Share of the jobs' wall time (%)")
    axes.tick_params(axis="y", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=7, frameon=False, ncols=len(LEDGER), loc="outside upper center")
    return figure


def write_plots(findings: Findings, folder: Path) -> dict[str, str]:
    """Write every figure in three formats into a folder; return name -> caption."""
    shown = shown_curves(findings)
    captions: dict[str, str] = {}
    folder.mkdir(exist_ok=True)
    for index, (workload, drawn) in enumerate(shown.drawn.items()):
        curves = [shown.curves[i] for i in drawn if shown.curves[i].points]
        if not curves:
            continue
        main = wording.main_metric(findings, workload)
        bounds = {c.slots_fed.efficiency * 100 for c in curves if c.slots_fed}
        bound = bounds.pop() if len(bounds) == 1 else None
        marks = (
            f"; values are {' + '.join(dict.fromkeys(wording.provenance_of(c) for c in curves))}"
        )
        confidence = wording.confidence_text(findings)
        noun = "clients" if any(curve.axis == "clients" for curve in curves) else "slots"
        if any(curve.distrusted for curve in curves):
            marks += "; grey crosses are of invalid trials"
        wanted: list[tuple[str, Any, str]] = [
            (
                "rate",
                _against_load(curves, main, None) if main else None,
                f"{show(main).title if main else ''} of {workload} against {noun}, with "
                f"{confidence} confidence intervals{marks}.",
            ),
            (
                "efficiency",
                _against_load(curves, "efficiency", bound),
                f"Job efficiency of {workload} against {noun}, with {confidence} confidence "
                f"intervals{marks}.",
            ),
            (
                "energy",
                _against_load(curves, "energy_wh_per_job", None),
                f"Energy per job of {workload} against {noun}, with {confidence} confidence "
                f"intervals{marks}.",
            ),
            (
                "ledger",
                _ledger(curves),
                f"Where the wall time of {workload} went, by storage and {noun}{marks}.",
            ),
        ]
        for kind, figure, caption in wanted:
            if figure is not None:
                name = f"{kind}-{index}"
                _save(figure, folder, name)
                captions[name] = caption
    return captions
