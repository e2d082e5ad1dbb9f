"""Files that commands write: what somebody else wrote there stays, and is named before the work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace.calibration.site_file import FIRST
from synthetic_records import Truth, plan_of, write_results
from workspace import Workspace

STUDY = """
headrace = 1
title = "two drives"
[target.ssd]
kind = "block"
drive = "samsung-870-evo-1tb"
[target.disk]
kind = "block"
drive = "seagate-exos-x24-24tb"
[workload.w]
kind = "sequential"
file_size = "16 MiB"
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    cells = [
        {"target": target, "workload": "scan", "slots": slots}
        for target in ("disk", "ssd")
        for slots in (1, 2)
    ]
    write_results(tmp_path / "results", plan_of(cells, 2), Truth())
    return Workspace(tmp_path, tmp_path / "cache")


@pytest.mark.parametrize(
    ("format", "name"),
    [
        ("html", "report.html"),
        ("csv", "report.csv"),
        ("latex", "report.tex"),
        ("parquet", "report.parquet"),
    ],
)
def test_a_report_replaces_reports_alone(workspace: Workspace, format: str, name: str) -> None:
    """`report --output .` replaced any `report.csv` of the folder."""
    report = ("report", "results", "--format", format, "--output")
    for _ in range(2):  # its own is replaced
        ended = workspace.run(*report, "out")
        assert ended.returncode == 0, ended.stderr
    theirs, link = workspace.place / "theirs" / name, workspace.place / "link" / name
    theirs.parent.mkdir()
    link.parent.mkdir()
    theirs.write_text("year,value\n2026,1\n")
    link.symlink_to(theirs)
    for folder in ("theirs", "link"):
        ended = workspace.run(*report, folder)
        assert ended.returncode == 4 and "is no report of Headrace" in ended.stderr
        assert not ended.stdout, "it is said before the report is made"
    assert theirs.read_text() == "year,value\n2026,1\n" and link.is_symlink()


def test_figures_of_a_latex_report_replace_figures_of_headrace_alone(workspace: Workspace) -> None:
    """It replaced any `rate-0.pdf` in a folder `report-figures`, and said to have written others'
    files there."""
    report = ("report", "results", "--format", "latex", "--output")
    for _ in range(2):  # its own are replaced
        ended = workspace.run(*report, "out")
        assert ended.returncode == 0, ended.stderr
    figures = workspace.place / "out" / "report-figures"
    made = {each.name for each in figures.iterdir()}
    assert {"rate-0.pdf", "rate-0.svg", "rate-0.png"} <= made
    (figures / "photo.png").write_text("mine")
    assert "photo.png" not in workspace.run(*report, "out").stderr
    shutil.copytree(figures, workspace.place / "alone" / "report-figures")
    assert workspace.run(*report, "alone").returncode == 0, "known without the document"
    for name in ("rate-0.pdf", "ledger-0.svg", "energy-3.png"):
        theirs = workspace.place / f"theirs-{name}" / "report-figures" / name
        theirs.parent.mkdir(parents=True)
        theirs.write_text("mine")
        ended = workspace.run(*report, f"theirs-{name}")
        assert ended.returncode == 4 and "is no figure of Headrace" in ended.stderr, ended.stderr
        assert theirs.read_text() == "mine" and not ended.stdout
        assert [*theirs.parent.iterdir()] == [theirs] and [*theirs.parents[1].iterdir()] == [
            theirs.parent
        ]
    (workspace.place / "file").mkdir()
    (workspace.place / "file" / "report-figures").write_text("mine")
    assert workspace.run(*report, "file").returncode == 4


def test_figures_that_a_document_of_an_earlier_version_includes_are_replaced(
    workspace: Workspace,
) -> None:
    report = ("report", "results", "--format", "latex", "--output", "out")
    assert workspace.run(*report).returncode == 0
    figures = workspace.place / "out" / "report-figures"
    for each in figures.iterdir():
        each.write_bytes(each.read_bytes().replace(b"Headrace", b"Matplotl"))
    assert workspace.run(*report).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ("report", "results", "--output", "{folder}"),
        ("report", "results", "--format", "csv", "--output", "{folder}"),
        ("decide", "results", "--html", "{link}"),
        ("compare", "results", "results", "--html", "{link}"),
        ("screen", "study.toml", "--out", "{link}"),
        ("calibrate", "study.toml", "--out", "{link}"),
        ("record", "--out", "{link}", "--", "true"),
        ("drive", "fit", "samsung-870-evo-1tb", "study.toml", "--out", "{link}"),
        ("drive", "complete", "study.toml", "study.toml", "--out", "{link}"),
        ("simulate", "study.toml", "--results", "{link}"),
        ("reproduce", "--html", "{link}"),
        ("trace", "convert", "study.toml", "{link}"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_no_output_follows_a_link_to_nothing(workspace: Workspace, words: tuple[str, ...]) -> None:
    """Most commands made the file to which it leads, some in a folder that nothing had checked."""
    elsewhere = workspace.place / "elsewhere"
    elsewhere.mkdir()
    links = workspace.place / "links"
    links.mkdir()
    for name in ("report.html", "report.csv", "out.toml"):
        (links / name).symlink_to(elsewhere / name)
    workspace.study(STUDY)
    given = [each.format(folder=links, link=links / "out.toml") for each in words]
    ended = workspace.run(*given, timeout_s=120)
    said = " ".join(ended.stderr.split())
    assert ended.returncode in (2, 4) and "link to" in said and "nothing" in said, said
    assert [*elsewhere.iterdir()] == [] and not ended.stdout


@pytest.mark.parametrize(
    "command", [("decide", "results", "--html"), ("compare", "results", "results", "--html")]
)
def test_a_page_in_a_missing_folder_is_refused_before_the_work(
    workspace: Workspace, command: tuple[str, ...]
) -> None:
    ended = workspace.run(*command, "nowhere/page.html")
    assert ended.returncode == 2 and "there is no folder nowhere" in ended.stderr
    assert not ended.stdout
    assert not (workspace.place / "nowhere").exists()
    assert workspace.run(*command, "/dev/null").returncode in (0, 5), "a device is written to"


def test_two_files_of_one_name_and_an_input_are_refused(workspace: Workspace) -> None:
    """The second page replaced the first, and a learnt site the one that it was learnt with."""
    ended = workspace.run("decide", "results", "--html", "page.html", "--pdf", "./page.html")
    assert ended.returncode == 2 and "name the same file" in ended.stderr
    site = workspace.place / "site.toml"
    site.write_text(text := f"{FIRST}\n[site.calibration]\n")
    study = workspace.study(STUDY)
    ended = workspace.run("calibrate", study, "--rehearse", site, "--out", "site.toml")
    assert ended.returncode == 2 and "is the site that --rehearse reads" in ended.stderr
    assert site.read_text() == text


def test_a_pipe_is_no_profile(workspace: Workspace) -> None:
    """`record --out` waited without an end for somebody to write to the pipe."""
    os.mkfifo(workspace.place / "pipe.toml")
    ended = workspace.run("record", "--out", "pipe.toml", "--", "true", timeout_s=30)
    assert ended.returncode == 4 and "is not a recorded profile" in ended.stderr


def test_a_page_into_a_pipe_is_not_read_first(workspace: Workspace) -> None:
    """`why --page` waited for the pipe to hold a page of its own: for ever, as its reader did."""
    pipe, read = workspace.place / "pipe.html", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    ended = workspace.run("why", "--page", "pipe.html", "--", "true", timeout_s=60)
    assert ended.returncode == 0, ended.stderr
    reader.join(10)
    assert len(read) == 1 and "</html>" in read[0]
    assert "</html>" in workspace.run("why", "--page", "/dev/stdout", "--", "true").stdout


TRACE = "time_ns,op,sector,sectors\n" + "".join(
    f"{number * 20_000_000},read,{number * 7_919_000 % 600_000_000 // 8 * 8},8\n"
    for number in range(200)
)


def test_response_times_are_added_to_what_a_stream_leads_to(workspace: Workspace) -> None:
    """`drive replay --out /dev/stdout >> notes.csv` emptied the file first."""
    (workspace.place / "trace.csv").write_text(TRACE)
    notes = workspace.place / "notes.csv"
    notes.write_text("mine\n")
    replay = [sys.executable, "-m", "headrace", "drive", "replay", "wd-wd3200bekt", "trace.csv"]
    with notes.open("a") as out:
        subprocess.run(
            [*replay, "--out", "/dev/stdout"], cwd=workspace.place, stdout=out, check=True
        )
    assert notes.read_text().startswith("mine\ntime_ns,op,")


@pytest.mark.parametrize(
    "command",
    [
        ("drive", "replay", "wd-wd3200bekt", "trace.csv", "--out", "new.csv"),
        ("drive", "validate", "wd-wd3200bekt", "new-response.csv", "--plot", "new.svg"),
        ("trace", "convert", "trace.csv", "new.iolog"),
    ],
)
def test_a_file_for_which_there_is_no_room_is_not_left_half(
    workspace: Workspace, command: tuple[str, ...]
) -> None:
    """Half of the response times of a replay are a trace, too, and `--out` refused to replace
    them."""
    (workspace.place / "trace.csv").write_text(TRACE)
    lines = [f"{line},{9_000_000 + 1000 * number}" for number, line in enumerate(TRACE.split())]
    lines[0] = "time_ns,op,sector,sectors,response_ns"
    (workspace.place / "new-response.csv").write_text("\n".join(lines))
    there = sorted(workspace.place.iterdir())
    run = 'trap "" XFSZ; ulimit -f 2; exec "$@"'  # files of 2 KiB at most
    ended = subprocess.run(
        ["bash", "-c", run, "bash", sys.executable, "-m", "headrace", *command],
        cwd=workspace.place,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 6 and "cannot be written: File too large" in ended.stderr
    assert sorted(workspace.place.iterdir()) == there


def test_a_picture_of_no_kind_is_refused_before_the_traces_are_read(workspace: Workspace) -> None:
    ended = workspace.run("trace", "plot", "not-there.csv", "--out", "picture.pdf")
    assert ended.returncode == 2 and "is not a kind of picture" in ended.stderr


def test_calibrate_replaces_no_site_of_somebody_else(workspace: Workspace) -> None:
    """Without `--out` it replaced any `site.toml` of its results folder."""
    study, folder = workspace.study(STUDY), workspace.place / "learnt"
    folder.mkdir()
    theirs = folder / "site.toml"
    theirs.write_text("[site]\n")
    (workspace.place / "known.toml").write_text("[site]\n")
    calibrate = ("calibrate", study, "--rehearse", "known.toml", "--results", "learnt")
    ended = workspace.run(*calibrate)
    assert ended.returncode == 4 and "learnt is not empty" in ended.stderr
    theirs.unlink()
    ended = workspace.run(*calibrate)
    assert ended.returncode in (0, 5) and theirs.exists(), ended.stderr
    theirs.write_text("[site]\n")
    ended = workspace.run(*calibrate)
    assert ended.returncode == 4 and "is not a site that headrace calibrate wrote" in ended.stderr
    assert theirs.read_text() == "[site]\n"


def test_steps_of_a_profile_replace_no_other_file(workspace: Workspace) -> None:
    """The file of the steps beside a new profile was replaced, whatever it was."""
    theirs = workspace.place / "job.steps.parquet"
    theirs.write_text("mine")
    ended = workspace.run("record", "--out", "job.toml", "--", "true")
    assert ended.returncode == 4 and "has no steps of a profile" in " ".join(ended.stderr.split())
    shutil.copy(theirs, workspace.place / "true.steps.parquet")
    ended = workspace.run("record", "--", "true")  # without --out: a name that is free
    assert ended.returncode == 0 and "true-2.toml" in ended.stderr
    assert (workspace.place / "true.steps.parquet").read_text() == "mine" == theirs.read_text()


def test_a_smaller_study_in_a_missing_folder_is_refused_before_the_work(
    workspace: Workspace,
) -> None:
    """`screen` simulated the whole matrix first."""
    study = workspace.study(STUDY)
    ended = workspace.run("screen", study, "--out", "nowhere/smaller.toml")
    assert ended.returncode == 2 and "there is no folder nowhere" in ended.stderr


def test_no_study_is_left_where_the_results_are_refused(workspace: Workspace) -> None:
    """`profile simulate --results` with a folder that is there left its study by the profile."""
    shutil.copy(shutil.which("true") or "", workspace.place / "program")
    assert workspace.run("record", "--out", "job.toml", "--", "./program").returncode == 0
    ended = workspace.run("profile", "simulate", "job.toml", "--results", "results")
    assert ended.returncode == 4 and "holds results already" in ended.stderr
    assert not list(workspace.place.glob("*.study.toml"))


def test_a_folder_of_keys_that_cannot_be_made_is_wrong_usage(workspace: Workspace) -> None:
    """It was "cannot be made: File exists", with the exit code of a run."""
    (workspace.place / "file").touch()
    ended = workspace.run("cluster", "init", "--directory", "file/keys")
    assert ended.returncode == 2 and "no folder can be in it" in " ".join(ended.stderr.split())


def test_records_of_emulated_studies_are_placed_before_they_run(workspace: Workspace) -> None:
    """The folder of the second study was refused after the first one, with another option's
    name."""
    (workspace.place / "records" / "emulated-drives").mkdir(parents=True)
    (workspace.place / "records" / "emulated-drives" / "mine.txt").touch()
    (workspace.place / "file").touch()
    for folder, code in (("records", 4), ("file", 2)):
        ended = workspace.run("reproduce", "--emulate", "--records", folder)
        assert ended.returncode == code and "with --records" in ended.stderr, ended.stderr
    assert len(list((workspace.place / "records").iterdir())) == 1


@pytest.mark.parametrize("command", ["simulate", "run"])
def test_files_are_utf_8_in_every_locale(tmp_path: Path, command: str) -> None:
    """In a locale of another encoding a study with `→` in its title ended with a traceback."""
    title = 'title = "Größe → two drives"'
    study = STUDY.replace('title = "two drives"', title)
    if command == "run":
        study = f'headrace = 1\n{title}\n[target.here]\nkind = "path"\npath = "{tmp_path}"\n'
        study += '[workload.w]\nkind = "metadata"\nitems = 10\n[plan]\nrepeats = { min = 1 }\n'
    locale = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    def headrace(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headrace", *words],
            cwd=tmp_path,
            env={**os.environ, **locale, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )

    (tmp_path / "study.toml").write_text(study, "utf-8")
    ended = headrace(command, "study.toml", "--results", "results")
    assert ended.returncode in (0, 5) and "Gr??e -> two drives" in ended.stdout, ended.stderr
    assert title in (tmp_path / "results" / "study.toml").read_text("utf-8")
    ended = headrace("report", "results", "--format", "html", "--output", "pages")
    assert ended.returncode in (0, 5), ended.stderr
    assert "Größe → two drives" in (tmp_path / "pages" / "report.html").read_text("utf-8")


FIT = """
import os, sys
from headrace.errors import UsageError
from headrace.reproduce import chosen
from headrace.reproduce.fitting import check_fits
modules = chosen(["worker-node-ssd"])
check_fits(modules)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    check_fits(modules)
except UsageError as error:
    print(error.message)
"""


@pytest.mark.usefixtures("needs_root")
def test_a_fit_into_a_catalog_of_somebody_else_is_refused_before_it() -> None:
    """`reproduce --fit` ended with a traceback, after minutes."""
    ended = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True)
    if "PermissionError" in ended.stderr:
        pytest.skip("other users cannot read this clone")
    assert ended.stdout.startswith("no permission to write to /"), ended.stderr
