"""Results whose stored study is lost or damaged: what needs it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import decide, resume, simulate
from headrace.errors import StudyError

STUDY = """
headrace = 1
[target.disk]
kind = "block"
drive = "samsung-870-evo-1tb"
[workload.scan]
kind = "scan"
data = { events = 2000, files = 2 }
[factors]
slots = [1, 2]
[plan]
repeats = { min = 1 }
"""


@pytest.mark.parametrize(
    ("stored", "said"),
    [(None, "no such file"), (b'title = "Gr\xf6\xdfe"\n', "is not UTF-8 text")],
    ids=["lost", "latin-1"],
)
def test_what_needs_the_study_of_results_names_the_file(
    tmp_path: Path, stored: bytes | None, said: str
) -> None:
    (tmp_path / "s.toml").write_text(STUDY)
    results = simulate(tmp_path / "s.toml", tmp_path / "r")
    file = results / "study.toml"
    file.unlink() if stored is None else file.write_bytes(stored)
    for needs_it in (lambda: resume(results), lambda: decide([results], nodes=2)):
        with pytest.raises(StudyError) as caught:
            needs_it()
        assert f"{file}:" in str(caught.value) and said in str(caught.value)
        assert "put the study of these results back" in str(caught.value.hint)
    made, _ = decide([results])
    assert made.choice.leading is not None  # the records alone
