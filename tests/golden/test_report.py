"""The terminal, LaTeX and CSV reports of known findings, byte for byte.

`HEADRACE_GOLDEN=write` writes them anew: look at the diff.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from headrace.analysis.findings import Findings
from headrace.report import write_report
from headrace.report.latex import latex_text
from headrace.report.terminal import print_report
from sample_findings import sample_findings

HERE = Path(__file__).parent


def known() -> Findings:
    return sample_findings(targets=("scratch", "nas"), slots=(1, 4, 8), energy=True, left_out=3)


def terminal(findings: Findings, _: Path) -> str:
    out = io.StringIO()
    print_report(findings, Console(file=out, width=80))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def latex(findings: Findings, _: Path) -> str:
    return latex_text(findings, {"rate-0": "Event rate of higgs against slots."})


def csv(findings: Findings, folder: Path) -> str:
    (file,) = write_report(folder, findings, ["csv"])
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "made"), [("report.txt", terminal), ("report.tex", latex), ("report.csv", csv)]
)
def test_a_known_report_is_as_it_was(name: str, made: object, tmp_path: Path) -> None:
    assert callable(made)
    text = made(known(), tmp_path)
    golden = HERE / name
    if os.environ.get("HEADRACE_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
