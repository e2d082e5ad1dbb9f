"""The library as a user's program has it: `import headrace`, with nothing else imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headrace

STUDY = """
headrace = 1
title = "two drives"
[target.local]
kind = "block"
drive = "wd-wd3200bekt"
[workload.read]
kind = "replay"
profile = "iozone-read"
data = { files = 2, file_size = "20 MB" }
[factors]
drive = ["wd-wd3200bekt", "corsair-f40"]
[plan]
repeats = { min = 1 }
"""


def python(program: str, *arguments: object, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_simulate_and_report_in_a_fresh_interpreter(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    said = python(
        "import headrace\n"
        "results = headrace.simulate('study.toml', 'results')\n"
        "findings, files = headrace.report(results, ['html', 'csv'])\n"
        "print(sorted(file.name for file in files), headrace.records(results).shape[0])\n"
        "findings, files = headrace.report(results)\n"
        "again = headrace.load_study('study.toml').simulate()\n"
        "print(len(files), again.parent)\n",
        cwd=tmp_path,
    )
    assert said.splitlines() == ["['report.csv', 'report.html'] 2", "1 results"]


@pytest.mark.slow
def test_functions_that_share_a_name_with_a_package_stay_callable(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    python(
        "import headrace, headrace.report.terminal, headrace.analysis.read\n"
        "import headrace.report.write as write\n"
        "from headrace import report\n"
        "results = headrace.simulate('study.toml', 'results')\n"
        "assert len(report(results)[1]) == len(headrace.report(results)[1]) == 1\n"
        "assert 'html' in write.FORMATS\n",
        cwd=tmp_path,
    )


@pytest.mark.slow
def test_commands_that_only_read_a_study_import_no_analysis(tmp_path: Path) -> None:
    """These libraries take one to three seconds of CPU time to import."""
    (tmp_path / "study.toml").write_text(STUDY)
    for arguments in (["--version"], ["validate", "study.toml"], ["plan", "study.toml"]):
        said = python(
            "import sys\n"
            "from headrace.cli import main\n"
            f"sys.argv = ['headrace', *{arguments}]\n"
            "try: main()\n"
            "except SystemExit as end: assert not end.code, end.code\n"
            "print('imported:', *({'awkward', 'bokeh', 'pandas', 'scipy', 'uproot'} & "
            "{*sys.modules}))",
            cwd=tmp_path,
        )
        assert said.splitlines()[-1] == "imported:", arguments


def test_dir_shows_the_library_alone() -> None:
    shown = [name for name in dir(headrace) if not name.startswith("__")]
    assert shown == sorted(set(headrace.__all__) - {"__version__"})
    assert all(hasattr(headrace, name) for name in headrace.__all__)
    with pytest.raises(AttributeError):
        headrace.nothing  # noqa: B018  # pyright: ignore


def test_an_error_says_what_is_wrong_and_where(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        STUDY.replace("files = 2", "fils = 2").replace("min", "mni")
    )
    with pytest.raises(headrace.StudyError) as caught:
        headrace.load_study(tmp_path / "study.toml")
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{tmp_path}/study.toml:10: workload.read.data.fils: ")
    assert 'did you mean "files"' in first
    assert second.startswith(f"{tmp_path}/study.toml:14: plan.repeats.mni: ")


def test_a_study_from_a_pipe_is_kept_as_it_was_read() -> None:
    reader, writer = os.pipe()
    os.write(writer, STUDY.encode())
    os.close(writer)
    try:
        assert headrace.load_study(f"/dev/fd/{reader}").text == STUDY
    finally:
        os.close(reader)


SEVERAL = """
headrace = 1
title = "two workloads, one and two nodes"
[site.node]
count = 2
[target.local]
kind = "block"
drive = "samsung-870-evo-1tb"
[workload.scan]
kind = "scan"
data = { shape = "bench", events = 20_000, files = 2 }
[workload.read]
kind = "sequential"
file_size = "4 MiB"
[factors]
nodes = [1, 2]
slots = [1, 2]
[plan]
repeats = { min = 1 }
"""


def test_the_table_of_findings_tells_workloads_and_loads_apart(tmp_path: Path) -> None:
    """Each row has its workload, the metric of that workload, and its load in one column."""
    study = tmp_path / "study.toml"
    study.write_text(SEVERAL)
    results = headrace.simulate(study, tmp_path / "r")
    findings, _ = headrace.report(results, ())
    table: Any = findings.table
    assert set(table["workload"]) == {"scan", "read"}
    assert not table.duplicated(["workload", "storage", "clients"]).any()
    assert sorted(table["clients"][table["workload"] == "scan"]) == [1, 2, 2, 4]
    assert "slots" not in table
    mains = {"scan": "events_per_s", "read": "asked_bytes_per_s"}
    for workload, metric in mains.items():
        assert table[metric][table["workload"] == workload].notna().all()
    assert "e+" not in findings._repr_html_().split("<svg")[0]  # pyright: ignore[reportPrivateUsage]
