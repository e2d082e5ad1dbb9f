"""What a command imports: packages that take long to import are left to the commands that use them.

Times are in docs/performance.md.
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from headrace import engine, faults, launchers, meters, probes, targets, workloads
from headrace.registry import Plugins
from synthetic_records import Truth, plan_of, write_results

STUDY = """
headrace = 1
[target.here]
kind = "path"
path = "."
[workload.scan]
kind = "scan"
data = { files = 2, events = 1000 }
[[fault]]
what = "disk-full"
at = "1 s"
"""

HEAVY = {
    *("awkward", "bokeh", "boost_histogram", "coffea", "duckdb", "fsspec", "hist", "jinja2"),
    *("matplotlib", "numba", "numpy", "pandas", "pyarrow", "pyroute2", "scipy", "uproot", "zarr"),
}

USED_BY_RUNS = {
    *("headrace.metrics", "headrace.probes.sampler", "headrace.records.store"),
    *("headrace.system.emulator", "headrace.system.machine_use", "headrace.targets.node_storage"),
}

MAIN = """
from headrace.cli import main
try:
    main()
except SystemExit:
    pass
"""

LISTED = """
import sys
from headrace.cli import main
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


SETTING_UP = {
    *("headrace.datasets.integrity", "headrace.datasets.store", "headrace.engine.timing"),
    *("headrace.plan.expected", "headrace.system.journal", "headrace.system.undo_actions"),
}
"""What writes data sets, times runs and undoes changes: a study that is checked needs none."""


def imported(folder: Path, *arguments: str, code: int = 0) -> set[str]:
    if not (folder / "study.toml").exists():
        (folder / "study.toml").write_text(STUDY)
    command = [sys.executable, "-c", LISTED, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return set(done.stderr.split())


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    modules = imported(tmp_path, "--help")
    assert not modules & (HEAVY | {"headrace.library", "headrace.study", "headrace._core"})
    assert "headrace.cli.report" in modules


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), ([], 2)])
def test_no_command_s_options_are_read_without_a_command(
    words: list[str], code: int, tmp_path: Path
) -> None:
    """To evaluate the types of them all takes a third of such a start."""
    counted = """
import atexit, sys
import typer.main
real, read = typer.main.get_params_from_function, []
def counted(function):
    read.append(function.__name__)
    return real(function)
typer.main.get_params_from_function = counted
atexit.register(lambda: print(*read, file=sys.stderr))
"""
    command = [sys.executable, "-c", counted + MAIN, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    read = done.stderr.splitlines()[-1].split()
    assert "_top_options" in read
    assert not {"run", "validate"} & {*read}
    assert not imported(tmp_path, *words, code=code) & {"markdown_it", "rich.markdown"}


def test_the_version_imports_no_command(tmp_path: Path) -> None:
    """It is printed before a command is looked for, even beside one; help lists them all."""
    commands = {f"headrace.cli.{name}" for name in ("drive", "report", "run", "trace", "validate")}
    for words in (["--version"], ["--version", "run"], ["--version", "--help"]):
        assert not imported(tmp_path, *words) & commands
    assert imported(tmp_path, "--help", "--version") >= commands


def test_the_list_of_commands_is_that_of_the_whole_application(tmp_path: Path) -> None:
    """It is made without the commands' options, and without parts of rich that typer imports."""
    whole = "from headrace.cli import make_app; make_app()(['--help'], prog_name='headrace')"
    listed = f"import sys; sys.argv = ['headrace', '--help']\n{MAIN}\nprint(*sys.modules)"
    outputs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for code in (whole, listed)
    ]
    shown, modules = outputs[1].stdout.rsplit("\n", 2)[:2]
    assert f"{shown}\n" == outputs[0].stdout
    assert not {"markdown_it", "pygments", "rich.markdown", "rich.traceback"} & {*modules.split()}


@pytest.mark.parametrize("workload", ["sequential", "random", "metadata"])
def test_validate_of_a_benchmark_imports_nothing_heavy(workload: str, tmp_path: Path) -> None:
    text = 'headrace = 1\n[target.here]\nkind = "path"\npath = "."\n[workload.w]\n'
    (tmp_path / "study.toml").write_text(f'{text}kind = "{workload}"\n')
    modules = imported(tmp_path, "validate", "study.toml")
    assert f"headrace.workloads.{workload}" in modules
    assert not modules & (HEAVY | USED_BY_RUNS | SETTING_UP)


def test_validate_imports_what_the_study_names(tmp_path: Path) -> None:
    modules = imported(tmp_path, "validate", "study.toml")
    assert not modules & (HEAVY | {"headrace.catalog.tables", "headrace.offers", "tree_sitter"})
    assert not modules & {"headrace.cli.report", "headrace.analysis", "headrace.report"}
    assert not modules & (USED_BY_RUNS | SETTING_UP)
    used = {
        "targets": {
            *("exports", "links", "local", "node_storage", "path", "queue_settings"),
            *("releasing", "scenario", "server_options", "setting"),
        },
        "workloads": {"analysis", "scan"},
        "faults": {"disk_full"},
        "meters": set[str](),
        # Their interface, and the options of [run].
        "launchers": {"agent", "batch", "job_events", "nodes"},
    }
    for name, allowed in used.items():
        package = f"headrace.{name}"
        every = {each.name for each in pkgutil.iter_modules(sys.modules[package].__path__)}
        assert {each for each in every if f"{package}.{each}" in modules} <= allowed, package


NODE = """
import sys
started = []
sys.addaudithook(lambda event, _: started.append(event) if event == "subprocess.Popen" else None)
from headrace.launchers.remote.node_process import main
main()
print(*started, *sorted(sys.modules), file=sys.stderr)
"""


def test_a_node_without_jobs_imports_no_models_and_starts_nothing(tmp_path: Path) -> None:
    """As it does for each login of a check; jobs, own drives, meters and keys need more."""
    done = subprocess.run(
        [sys.executable, "-c", NODE, str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    said = set(done.stderr.split())
    assert "headrace.launchers.local" in said
    assert not said & (HEAVY | {"cryptography", "pydantic", "subprocess.Popen"})
    assert not said & {"headrace.meters", "headrace.targets", "headrace.workloads"}


ENDING = """
import atexit, gc, os, socket, sys
def last():
    kept = gc.get_freeze_count()
    print("frozen" if kept > 10_000 else kept, file=sys.stderr)
atexit.register(last)
"""


@pytest.mark.parametrize(
    "process",
    [
        "import sys; sys.argv[1:] = ['--version']; from headrace.cli import main; main()",
        "from headrace.launchers.remote.node_process import main; main()",
        "ours, theirs = socket.socketpair(); ours.close(); sys.argv[1:] = [str(theirs.detach())]\n"
        "from headrace.launchers.fork_server import main; main()",
        "from headrace.datasets.writer_process import main; main()",
    ],
    ids=["command", "node", "fork server", "writer"],
)
def test_short_processes_end_without_a_search_for_garbage(process: str, tmp_path: Path) -> None:
    """It takes as long as the imports of some commands."""
    done = subprocess.run(
        [sys.executable, "-c", ENDING + process, str(tmp_path)],
        input='{"spec": {"events": 1, "files": 1}, "numbers": []}',
        capture_output=True,
        text=True,
    )
    assert done.stderr.split()[-1] == "frozen", done.stderr


@pytest.mark.slow
def test_a_report_imports_no_bokeh(tmp_path: Path) -> None:
    """Its figures are written as what Bokeh's script reads (`headrace/report/bokeh_json.py`)."""
    plan = plan_of([{"target": "disk", "workload": "higgs", "slots": 1}], 3)
    write_results(tmp_path / "results", plan, Truth(), series=True)
    modules = imported(tmp_path, "report", "results")
    assert (tmp_path / "results" / "report.html").exists()
    assert not modules & {"bokeh", "duckdb", "matplotlib"}
    # Each takes 20 to 100 ms of CPU time.
    assert not modules & {"numpy.f2py", "pyarrow.dataset", "scipy.sparse", "scipy.special"}


def test_a_drive_runs_without_what_fits_one(tmp_path: Path) -> None:
    """scipy's least squares takes longer to import than a drive's run takes."""
    words = ("drive", "run", "samsung-870-evo-1tb", "--runtime", "0.1")
    modules = imported(tmp_path, *words)
    assert "headrace.drives" in modules
    assert not {each for each in modules if each.startswith("scipy")}


PACKAGES = (engine, faults, launchers, meters, probes, targets, workloads)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_kind_is_the_same_class_looked_up_and_listed(package: ModuleType) -> None:
    kinds: Plugins[object] = package.kinds()
    assert len(kinds) == len(list(kinds)) > 1
    assert list(kinds) == sorted(kinds)
    for kind, part in kinds.items():
        alone = Plugins(kinds.package, kinds.base)
        assert alone[kind] is part
    assert "no such kind" not in kinds


def test_a_module_that_has_no_kind_is_none() -> None:
    alone = Plugins("headrace.targets", targets.Target)
    assert "queue-settings" not in alone
    assert alone["path"] is targets.kinds()["path"]
