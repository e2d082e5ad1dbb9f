"""How far a simulation is off.

Times per work of cells that a measured and a simulated result set have in common.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace.analysis.model_error import as_json, model_errors
from headrace.analysis.read import Records, read
from headrace.errors import RefusedError
from headrace.report.model_error import print_model_errors
from synthetic_records import Truth, plan_of, write_results

CELLS: list[dict[str, Any]] = [
    {"target": "disk", "workload": "higgs", "filesystem": "ext4", "slots": slots}
    for slots in (1, 2)
]


def results(
    path: Path, truth: Truth, cells: list[dict[str, Any]] = CELLS, repeats: int = 4
) -> Records:
    return read(
        write_results(path, plan_of(cells, repeats), truth, seed=len(path.name), series=False)
    )


def simulated(path: Path, cells: list[dict[str, Any]] = CELLS, **truth: Any) -> Records:
    return results(path, Truth(engine="simulate", provenance="simulated", **truth), cells, 1)


def test_an_error_put_in_comes_out_whichever_comes_first(tmp_path: Path) -> None:
    real = results(tmp_path / "real", Truth(trial_sigma=0.005))
    model = simulated(tmp_path / "simulated", cpu_s=5.0)
    for pair in ((real, model), (model, real)):
        found = model_errors(*pair)
        assert [cell.levels["slots"] for cell in found.cells] == [1, 2]
        for cell in found.cells:
            assert cell.error == pytest.approx(cell.simulated_s.value / cell.real_s.value - 1)
            assert cell.error == pytest.approx(0.25, abs=0.03)
            assert cell.seen and cell.provenance == "measured"


def test_a_model_without_error_is_within_the_interval(tmp_path: Path) -> None:
    real = results(tmp_path / "real", Truth(trial_sigma=0.02))
    found = model_errors(real, simulated(tmp_path / "simulated"))
    assert not any(cell.seen for cell in found.cells)
    assert found.quantile(1.0) < 0.05


def test_jobs_of_a_set_time_are_compared_over_the_same_work(tmp_path: Path) -> None:
    real, model = results(tmp_path / "real", Truth()), simulated(tmp_path / "simulated")
    before = model_errors(real, model)
    # In as much virtual time half of the work.
    model.trials["events"] = model.trials["events"] / 2
    for old, new in zip(before.cells, model_errors(real, model).cells, strict=True):
        assert new.simulated_s.value == pytest.approx(2 * old.simulated_s.value)
        assert new.error == pytest.approx(2 * old.error + 1)


def test_an_error_is_divided_into_cpu_time_and_waits(tmp_path: Path) -> None:
    real = results(tmp_path / "real", Truth(trial_sigma=0.005))
    found = model_errors(real, simulated(tmp_path / "simulated", cpu_s=5.0)).cells
    for cell in found:
        assert cell.of_cpu == pytest.approx(cell.error, abs=0.02)
        assert cell.of_waits == pytest.approx(0.0, abs=0.02)
    console = Console(file=io.StringIO(), width=80)
    print_model_errors(model_errors(real, simulated(tmp_path / "more", cpu_s=5.0)), console)


def test_what_is_no_such_pair_is_refused(tmp_path: Path) -> None:
    real, model = results(tmp_path / "real", Truth()), simulated(tmp_path / "simulated")
    for pair in ((real, real), (model, model)):
        with pytest.raises(RefusedError, match="not one measured and one simulated"):
            model_errors(*pair)
    other = simulated(tmp_path / "other", [{**CELLS[0], "target": "ssd"}])
    with pytest.raises(RefusedError, match="no cell in common"):
        model_errors(real, other)
    broken = read(
        write_results(tmp_path / "broken", plan_of(CELLS[:1], 1), Truth(), broken={0: "failed"})
    )
    with pytest.raises(RefusedError, match="no valid trial"):
        model_errors(real, broken)


def test_the_table_has_every_cell_and_the_json_too(tmp_path: Path) -> None:
    real = results(tmp_path / "real", Truth(), [*CELLS, {**CELLS[0], "slots": 8}])
    found = model_errors(real, simulated(tmp_path / "simulated", cpu_s=5.0))
    shown = io.StringIO()
    print_model_errors(found, Console(file=shown, width=80))
    text = shown.getvalue()
    for words in ("measured", "simulated", "error", "+2", "only measured: 1 cell", "slots 8"):
        assert words in text, words
    assert all(len(line) <= 80 for line in text.splitlines())
    values = json.loads(as_json(found))
    assert [cell["levels"]["slots"] for cell in values["cells"]] == [1, 2]
    assert values["cells"][0]["error"] == found.cells[0].error


@pytest.mark.parametrize(("invalid", "trials"), [(1, "1 measured trial "), (2, "2 measured ")])
def test_trials_that_are_left_out_are_counted_in_words(
    invalid: int, trials: str, tmp_path: Path
) -> None:
    real = read(
        write_results(
            tmp_path / "real",
            plan_of(CELLS, 4),
            Truth(),
            broken=dict.fromkeys(range(invalid), "invalid"),
        )
    )
    (warning,) = model_errors(real, simulated(tmp_path / "simulated")).warnings
    assert trials in warning
