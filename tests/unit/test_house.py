"""The laws of the architecture, checked by a program.

Imports run in one direction, names end with their unit, every module has a docstring, and old terms
of the glossary are not used.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from headrace.study.schema import study_schema
from import_rules import ALLOWED, BASE
from rust_modules import cycles

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "headrace"
MODULES = sorted(PACKAGE.rglob("*.py"))
CRATES = sorted(path.parent for path in (ROOT / "crates").glob("*/Cargo.toml"))


def package_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


PACKAGE_OF = {path: package_of(path) for path in MODULES}
PACKAGES = sorted(set(PACKAGE_OF.values()))


def modules_of(package: str) -> list[Path]:
    return [path for path, of in PACKAGE_OF.items() if of == package]


@cache
def nodes_of(text: str) -> list[ast.AST]:
    """Return all nodes of a source text; all tests share them, as its tree."""
    return list(ast.walk(tree_of(text)))


@cache
def tree_of(text: str) -> ast.Module:
    """Return the syntax tree of a source text; all tests share it and change nothing in it."""
    return ast.parse(text)


def imported_packages(path: Path) -> set[str]:
    packages: set[str] = set()
    for node in nodes_of(path.read_text()):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [node.module]
                if node.module != "headrace"
                else [f"headrace.{alias.name}" for alias in node.names]
            )
        packages |= {name.split(".")[1] for name in names if name.startswith("headrace.")}
    return packages


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_run_in_one_direction(package: str) -> None:
    assert package in ALLOWED, f"unknown package {package}: add it to ARCHITECTURE.md and here"
    for path in modules_of(package):
        forbidden = imported_packages(path) - ALLOWED[package] - {package}
        assert not forbidden, f"{path}: {package} may not import {sorted(forbidden)}"


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def nodes_that_run(node: ast.AST) -> Iterator[ast.AST]:
    """Every node, without those for the type checker alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for otherwise in child.orelse:
                yield otherwise
                yield from nodes_that_run(otherwise)
        else:
            yield child
            yield from nodes_that_run(child)


def imports_of(text: str, known: set[str]) -> set[str]:
    """Modules of Headrace that a module imports, at its top or in a function."""
    found: set[str] = set()
    for node in nodes_that_run(tree_of(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            inside = submodules & known
            # The package itself only for the names that are no modules of it.
            found |= inside | ({node.module or ""} if inside != submodules else set())
    return found & known


def cycle_among(graph: dict[str, set[str]]) -> list[str] | None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_no_modules_import_each_other() -> None:
    names = {module_name(path): path for path in MODULES}
    known = {*names, "headrace._core"}
    graph = {name: imports_of(path.read_text(), known) for name, path in names.items()}
    assert sum(map(len, graph.values())) > len(graph), "the imports were not found"
    cycle = cycle_among(graph)
    assert cycle is None, " imports ".join(reversed(cycle or []))


def test_no_packages_may_import_each_other() -> None:
    """Outside the base layer, whose packages serve each other."""
    above = {
        package: {*packages} - BASE for package, packages in ALLOWED.items() if package not in BASE
    }
    cycle = cycle_among(above)
    assert cycle is None, " may import ".join(reversed(cycle or []))


def test_cycles_are_seen_wherever_an_import_is() -> None:
    in_function = "def late():\n    from headrace.b import thing\n"
    for_types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import headrace.a\n"
    known = {"headrace", "headrace.a", "headrace.b"}
    late = imports_of(in_function, known)
    assert late == {"headrace.b"}
    assert cycle_among({"headrace.a": late, "headrace.b": imports_of("import headrace.a", known)})
    assert not imports_of(for_types, known)
    assert imports_of("from headrace import a, run", known) == {"headrace", "headrace.a"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_file_says_what_it_is(package: str) -> None:
    for path in modules_of(package):
        assert ast.get_docstring(tree_of(path.read_text())), f"{path} has no docstring"


def test_names_that_say_nothing() -> None:
    for path in MODULES:
        for part in path.relative_to(PACKAGE).with_suffix("").parts:
            assert not re.search(r"util|manager|helper|misc|common", part), path


# Modules at the borders of the program, where the fields of a table have no types, and why.
STUDY_FILE = "a study file before its validation"
CORE = "JSON of the core or of the emulator"
ARRAYS = "arrays and branches of libraries without types, by name"
TOTALS = "totals of a probe or a fault, whose fields only its kind and the verdict know"
UNTYPED_TABLES = {
    "analysis/read.py": "the study file stored with the records",
    "decision/cells.py": "rows of the frame of trials",
    "whatif/scaling.py": "rows of the frame of trials",
    "calibration/site_file.py": STUDY_FILE,
    "engine/simulate/calibrated.py": "a drive as written in its TOML file",
    "catalog/drive_problems.py": "a drive's file as written: the core has its type",
    "catalog/load.py": "an entry as written in its TOML file",
    "catalog/tables.py": "parts of entries that the core checks, in pydantic models",
    "document.py": "a parsed TOML file",
    "jobs.py": "a job's own results, which only its workload knows",
    "meters/redfish.py": "JSON of a BMC",
    "plan/cells.py": "the levels of a cell, before they are checked",
    "records/energy.py": "trial.json before its fields are checked",
    "records/trial_record.py": "parts of trial.json that only one kind of plug-in knows",
    "reproduce/published.py": "a row of a published table, by the name of its column",
    "validation.py": "a table before its validation",
    "study/schema.py": "a JSON Schema",
    **dict.fromkeys(
        (f"study/{name}.py" for name in ("factors", "fields", "load", "model", "parts", "resolve")),
        STUDY_FILE,
    ),
    **dict.fromkeys(
        (
            "system/emulator/report.py",
            "traces/statistics.py",
            "workloads/mdtest/phases.py",
            "workloads/metadata.py",
        ),
        CORE,
    ),
    **dict.fromkeys(
        (
            "datasets/table.py",
            "readers/own_file.py",
            "readers/uproot_reader.py",
            "workloads/higgs/histograms.py",
            "workloads/reading/own_skim.py",
        ),
        ARRAYS,
    ),
    **dict.fromkeys(
        (
            *(
                f"engine/measure/{name}.py"
                for name in ("emulator_reports", "node_probes", "outcome", "validity", "verdict")
            ),
            *(
                f"probes/{name}.py"
                for name in (
                    "__init__",
                    "block",
                    "cpu",
                    "ledger",
                    "memory",
                    "network",
                    "pressure",
                    "prometheus",
                    "sampler",
                    "services",
                    "trace",
                )
            ),
        ),
        TOTALS,
    ),
    **dict.fromkeys(
        ("datasets/integrity.py", "datasets/own_store.py", "datasets/writers.py"),
        "JSON of a data set's manifest and of the processes that write it",
    ),
    "faults/__init__.py": "what a fault saw, which only its kind knows",
    "faults/servers.py": "JSON of the process that writes during the fault",
    "protocols/__init__.py": "options of fsspec",
    "protocols/s3.py": "options of fsspec",
    "system/facts.py": "the environment of a record",
    "system/journal.py": "a line of the undo journal, as JSON",
    "system/undo_actions.py": "arguments of an undo action, as JSON",
    "system/servers/hdfs.py": "JSON of Hadoop's servers",
    "system/servers/nfs_fuse.py": "calls of mfusepy and JSON of rpcbind",
    "traces/capture.py": "JSON of blktrace's reader",
    "traces/files.py": "the JSON that describes a trace",
    "workloads/mdtest/imported.py": "results of mdtest as a record holds them",
    "workloads/mdtest/ior_json.py": "JSON of IOR",
    "drives/controller_parameters.py": "a drive's table and DiskSim's parameters, as read",
}


def test_tables_have_types() -> None:
    """A table whose values can be anything is read without any check of its fields."""
    untyped = {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        for node in nodes_of(path.read_text())
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)  # far less to write out
        and ast.unparse(node) == "dict[str, Any]"
    }
    assert untyped == UNTYPED_TABLES.keys(), "give the table a type, or a reason"


MOST_LINES = 60
# Longer functions, and why. Their statements fit into the limit all the same.
LONG_FUNCTIONS = {
    "cli/calibrate.py calibrate": "the options of a command",
    "cli/drive/emulated.py attach": "the options of a command",
    "cli/drive/fitted.py fit": "the options of a command",
    "cli/drive/modelled.py run": "the options of a command",
    "cli/profile.py simulate_profile": "the options of a command",
    "cli/reproduce.py reproduce": "the options of a command",
}


def long_functions(text: str) -> Iterator[tuple[str, int]]:
    """Functions of more than `MOST_LINES` lines, and the lines of their statements."""
    for node in nodes_of(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            end = node.end_lineno or 0
            if end - node.lineno + 1 > MOST_LINES:
                first = node.body[1 if ast.get_docstring(node) and node.body[1:] else 0]
                yield node.name, end - first.lineno + 1


def test_functions_are_short() -> None:
    found = {
        f"{path.relative_to(PACKAGE)} {name}": lines
        for path in MODULES
        for name, lines in long_functions(path.read_text())
    }
    assert found.keys() == LONG_FUNCTIONS.keys(), "split the function, or give a reason"
    assert all(lines <= MOST_LINES for lines in found.values()), found


def test_a_long_function_is_found() -> None:
    statements = "    x = 1\n"
    assert not list(long_functions("def f():\n" + statements * 59))
    assert list(long_functions("def f():\n" + statements * 60)) == [("f", 60)]
    method = "class A:\n  async def f(\n    self,\n  ):\n    'Text.'\n" + statements * 60
    assert list(long_functions(method)) == [("f", 60)]


def names_with_units(path: Path) -> list[str]:
    found: list[str] = []
    for node in nodes_of(path.read_text()):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.append(node.target.id)
        elif isinstance(node, ast.arg):
            found.append(node.arg)
    return found


# Spellings of units that are not used, and the one that is (law 8).
MISSPELT = {
    r"_(sec|secs|second|msec|millis)$": "_s, _ms, _us or _ns",
    r"(?<!_per)_(byte|mbytes|kb|mb|gb)$": "_bytes",
    r"_(bps|mbps|bytes_s|bytes_sec)$": "_bytes_per_s",
    r"^(ns|ms|us|sec)_": "the unit last",
    r"_(watt|watts)$": "_w",
    r"_(joule|joules)$": "_j",
}


@pytest.mark.parametrize("package", PACKAGES)
def test_units_are_spelt_one_way(package: str) -> None:
    for path in modules_of(package):
        for name in names_with_units(path):
            for pattern, right in MISSPELT.items():
                assert not re.search(pattern, name), f"{path}: {name}: write {right}"


# What a pure package may not import: files, processes, the clock and the machine.
IMPURE = re.compile(
    r"(os|io|pathlib|shutil|glob|tempfile|subprocess|socket|threading|multiprocessing|time|mmap|fcntl"
    r"|tomllib|urllib|duckdb|pyarrow\.parquet|psutil"
    r"|headrace\.(system|document|user|records\.(store|plan_file|place)))(\.|$)"
)
PURE = ("plan", "analysis")
READER = "analysis/read.py"
"""The one module of `analysis` that reads: a results folder."""


def impure(text: str) -> set[str]:
    """What a pure module may not have: imports and calls that read or change the machine."""
    found: set[str] = set()
    for node in nodes_that_run(tree_of(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            wrong = called in ("open", "input") or called.endswith((".read_text", ".read_bytes"))
            found |= {called} if wrong else set()
        found |= {name for name in names if IMPURE.match(name)}
    return found


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if package_of(path) in PURE],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_pure_packages_do_no_input_or_output(path: Path) -> None:
    found = impure(path.read_text())
    assert bool(found) == (str(path.relative_to(PACKAGE)) == READER), found


@pytest.mark.parametrize(
    "text",
    [
        "import os.path",
        "from pathlib import Path",
        "def late():\n    import pyarrow.parquet as pq",
        "from headrace.records import store",
        "from headrace.system.storage import free_bytes",
        "def read(file):\n    return file.read_text()",
        "open(name)",
    ],
)
def test_input_and_output_are_seen(text: str) -> None:
    assert impure(text)
    assert not impure("import numpy as np\nfrom headrace.records.trial_record import TrialRecord")
    assert not impure("if TYPE_CHECKING:\n    from pathlib import Path")


# Loops that look at the clock or sleep, and are no wait for something up to a time limit; by module
# and function.
NO_WAITS = {
    ("watching/watcher.py", "watch"): "samples at random moments",
    ("system/waiting.py", "wait_until"): "the wait itself",
    ("system/waiting.py", "remaining"): "the wait itself",
    ("system/waiting.py", "retry"): "the wait itself",
    ("engine/measure/job_pool.py", "_loop"): "every job has a limit of its own, and shows progress",
    ("probes/sampler.py", "_loop"): "one sample at each due time, until it is stopped",
    ("faults/pulse.py", "_write"): "one write at each due time, until it is killed",
    ("meters/sampling.py", "_loop"): "one reading at each due time, until it is stopped",
    ("profiles/replaying.py", "_sleep"): "a replayed job computes until a time, to the microsecond",
    ("launchers/remote/connection.py", "answer"): "waits for messages; a silent node is lost",
    ("system/emulator/attaching.py", "_calibrate"): "eight attempts with growing pauses",
}
CLOCK = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time"}
CALLS = re.compile(rf"\b({'|'.join(('sleep', *sorted(CLOCK)))})\(")


def clock_loops(text: str) -> set[str]:
    """Functions with a `while` that reads the clock, or with a loop that sleeps."""
    found: set[str] = set()

    def visit(node: ast.AST, function: str) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node.name
        if isinstance(node, (ast.While, ast.For)):
            called = {
                ast.unparse(each.func).removeprefix("time.")
                for each in ast.walk(node)
                if isinstance(each, ast.Call)
            }
            if "sleep" in called or (isinstance(node, ast.While) and called & CLOCK):
                found.add(function)
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    if CALLS.search(text):
        visit(tree_of(text), "")
    return found


def test_waits_up_to_a_time_limit_are_written_once() -> None:
    found = {
        (str(path.relative_to(PACKAGE)), function)
        for path in MODULES
        for function in clock_loops(path.read_text())
    }
    assert not found - NO_WAITS.keys(), "use wait_until, remaining or retry of system/waiting.py"
    assert not NO_WAITS.keys() - found, "these loops are gone: remove them from NO_WAITS"


@pytest.mark.parametrize(
    ("loop", "seen"),
    [
        ("while time.monotonic() < deadline:\n        look()", True),
        ("while not there():\n        time.sleep(0.1)", True),
        ("for _ in range(9):\n        time.sleep(0.1)", True),
        ("for file in files:\n        begun = time.monotonic()", False),
        ("while not stop.wait(1.0):\n        look()", False),
    ],
)
def test_a_loop_that_waits_is_found(loop: str, seen: bool) -> None:
    assert clock_loops(f"def wait():\n    {loop}\n") == ({"wait"} if seen else set())


def test_no_two_public_classes_have_one_name() -> None:
    """One name for one thing. A `kind` of a plug-in is named by the registry, not by its class."""
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in tree_of(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not twice, f"classes with one name: {twice}"


def test_every_package_is_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for package in sorted({package_of(path) for path in MODULES} - {"__init__"}):
        assert re.search(rf"\b{re.escape(package)}\b", text), (
            f"ARCHITECTURE.md does not name {package}"
        )
    for crate in sorted(path.parent.name for path in (ROOT / "crates").glob("*/Cargo.toml")):
        assert f"{crate}/" in text, f"ARCHITECTURE.md does not name crate {crate}"


# Modules that name the interpreter for another reason than to start a process of our own.
NAME_THE_INTERPRETER = {
    "system/own_programs.py": "starts them",
    "launchers/ssh.py": "the default of [run] python, on another host",
    "launchers/batch/launcher.py": "the default of [run] python, in a job script",
    "workloads/dask_cluster/interpreter.py": "the user's script and workers",
    "system/servers/hadoop.py": "a message",
}


def test_processes_of_our_own_are_started_in_one_place() -> None:
    """`own_module` and `own_code` keep the user's working directory out of the module path."""
    named = {
        str(path.relative_to(PACKAGE)) for path in MODULES if "sys.executable" in path.read_text()
    }
    assert named == NAME_THE_INTERPRETER.keys(), "start it by headrace.system.own_programs"


def test_the_published_schema_is_the_one_of_the_code() -> None:
    published = json.loads((ROOT / "docs" / "study.schema.json").read_text())
    assert published == study_schema(), (
        "docs/study.schema.json is stale; write it again: make schema"
    )


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_no_import_cycle_in_a_crate(crate: Path) -> None:
    found = cycles(crate / "src")
    assert not found, f"these modules of {crate.name} use each other: {found}"


# Old terms of docs/glossary.md that nothing may use again, as words or as parts of identifiers.
OLD_TERMS = re.compile(
    r"(?i)(?<![a-z])(look_again|look(ing)? again|lay_out|laid|own_drives?|nursery|crew"
    r"|befalls?|struck|lateness|mistakes|the house|the faces|(the|base) ground|whoever|whom"
    r"|rests on|rests_on|gone on with|comes to be|goes away|feeds no slot)"
    r"(?![a-z])"
)
# Names of stored fields, which old records have (docs/glossary.md), and words in another meaning.
STORED_OR_OTHER = re.compile(r"lateness_ns|struck_s|plan\.mistakes")


def texts_with_terms() -> Iterator[Path]:
    """The Python code, and the pages and study files that users read."""
    yield from MODULES
    yield from sorted(PACKAGE.rglob("*.j2"))
    yield from sorted(path for path in (ROOT / "docs").glob("*.md") if path.name != "glossary.md")
    yield from sorted((ROOT / "studies").rglob("*.toml"))
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"))


@pytest.mark.parametrize(
    "path", list(texts_with_terms()), ids=lambda path: str(path.relative_to(ROOT))
)
def test_no_old_terms_of_the_glossary(path: Path) -> None:
    text = STORED_OR_OTHER.sub("", path.read_text())
    found = sorted({match[0] for match in OLD_TERMS.finditer(text)})
    assert not found, f"write the new terms of docs/glossary.md instead of {found}"


@pytest.mark.parametrize("text", ["def look_again()", "Whoever reads", "the lateness", "LATENESS"])
def test_an_old_term_is_found(text: str) -> None:
    assert OLD_TERMS.search(text)
    assert not OLD_TERMS.search("plaid and screwdriver; a laidback crews' whomever")


# How one module can use another.
USES = {
    "use": "use crate::b::two;",
    "braces": "use crate::{c, b::{two, self as other}};",
    "parent": "use super::b;",
    "in the code": "fn one() -> u32 { crate::b::two() }",
    "re-export": "use crate::facade::two;",
    "all": "use crate::b::*;",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_cycle_in_a_crate_is_found(use: str, tmp_path: Path) -> None:
    (tmp_path / "lib.rs").write_text("mod a; mod b; mod c; mod facade;")
    (tmp_path / "facade.rs").write_text("pub use crate::b::two;")
    (tmp_path / "c.rs").write_text("pub fn three() {}")
    (tmp_path / "b.rs").write_text("use crate::a::one;\npub fn two() {}")
    (tmp_path / "a.rs").write_text(f"pub fn one() {{}}\n{use}")
    assert cycles(tmp_path) == [["a", "b"]]


def test_a_cycle_of_a_module_and_its_submodule_is_found(tmp_path: Path) -> None:
    (tmp_path / "lib.rs").write_text("mod a;")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "mod.rs").write_text("mod b;\nstruct One(b::Two);")
    (tmp_path / "a" / "b.rs").write_text("use super::One;\npub struct Two(Box<One>);")
    assert cycles(tmp_path) == [["a", "a::b"]]
    # A re-export alone is no use; nor are tests and comments.
    (tmp_path / "a" / "mod.rs").write_text("mod b;\npub use b::Two; // b::Two\nstruct One;")
    assert cycles(tmp_path) == []
    (tmp_path / "a" / "mod.rs").write_text(
        "mod b;\nstruct One;\n#[cfg(test)]\nmod tests { fn f() { let _ = super::b::Two; } }"
    )
    assert cycles(tmp_path) == []
