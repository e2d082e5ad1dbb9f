"""What mdtest and IOR print, read back by `headrace metadata`.

Every version, with the tables beside the rates.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.cli import make_app
from headrace.errors import ExitCode, HeadraceError, StudyError
from headrace.workloads.mdtest.imported import read_results
from headrace.workloads.mdtest.phases import TITLES
from headrace.workloads.mdtest.rates import Imported, Rate
from mdtest_output import (
    DIRECTORIES,
    FILES,
    TREE,
    VERSIONS,
    ior_2_quiet,
    ior_output,
    mdtest_output,
    mdtest_tables,
)

MIB = 2**20
PRINTED = [(version, ("rate",)) for version in VERSIONS]
PRINTED += [
    (version, ("rate", "time")) for version in VERSIONS if version != "1.8.4"
]  # which has no -P
PHASE = {title: phase for phase, title in TITLES.items()}


def written(folder: Path, text: str) -> Path:
    file = folder / "mdtest easy.txt"
    file.write_text(text)
    return file


def read_one(folder: Path, text: str) -> Imported:
    (found,) = read_results(written(folder, text))
    return found


def some_rates(rows: tuple[str, ...], iterations: int) -> dict[str, list[float]]:
    return {
        row: [1000.0 * (at + 1) + 100 * each for each in range(iterations)]
        for at, row in enumerate(rows)
    }


@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize(
    ("of", "rows"),
    [
        ("files", FILES + TREE),
        ("directories", DIRECTORIES + TREE),
        ("both", DIRECTORIES + FILES + TREE),
    ],
    ids=["-F", "-D", "both"],
)
@pytest.mark.parametrize(
    ("version", "tables"), PRINTED, ids=[f"{v} {' '.join(t)}" for v, t in PRINTED]
)
def test_rates_are_those_of_the_rate_table(
    version: str,
    of: str,
    rows: tuple[str, ...],
    tables: tuple[str, ...],
    iterations: int,
    tmp_path: Path,
) -> None:
    rates = some_rates(rows, iterations)
    found = read_one(tmp_path, mdtest_output(version, rates, of=of, tables=tables))
    assert set(found.rates) == {PHASE[row] for row in rows}
    for row, values in rates.items():
        rate = found.rates[PHASE[row]]
        assert (rate.max, rate.min) == (max(values), min(values)), row
        assert rate.mean == pytest.approx(sum(values) / iterations), row
    assert found.program == f"mdtest {version.split(' ')[0]}"
    assert (found.clients, found.nodes, found.about, found.whole) == (16, 2, {"items": 1600}, True)


@pytest.mark.parametrize("tables", [("rate",), ("rate", "time")], ids=["rate", "-P"])
@pytest.mark.parametrize("version", VERSIONS[1:])
def test_phases_that_were_not_run_are_blank(
    version: str, tables: tuple[str, ...], tmp_path: Path
) -> None:
    # The four steps of mdtest-easy and -hard are runs of their own, of one phase each.
    text = mdtest_output(version, {"File removal": [96720.801]}, of="files", tables=tables)
    assert set(read_one(tmp_path, text).rates) == {"file_removal"}


def test_a_phase_too_slow_for_three_digits_was_run(tmp_path: Path) -> None:
    text = mdtest_output(
        "3.4.0+dev",
        {"Tree creation": [0.0002], "File stat": [5.0]},
        of="files",
        tables=("rate", "time"),
    )
    assert read_one(tmp_path, text).rates["tree_creation"].mean == 0


def test_times_alone_are_no_rates(tmp_path: Path) -> None:
    for version, options in (("3.4.0+dev", "-n 5 -Z"), ("1.8.4", "-FZ")):
        file = written(
            tmp_path,
            mdtest_output(version, {"File stat": [1.0]}, tables=("time",), options=options),
        )
        with pytest.raises(StudyError) as caught:
            read_results(file)
        assert f"{file}: file: mdtest printed times (-Z), not rates" in str(
            caught.value.problems[0]
        )


def test_each_number_of_tasks_is_a_result(tmp_path: Path) -> None:
    fewer = mdtest_tables("4.0.0", {"File stat": [10.0]}, tasks=4, tables=("rate", "time"))
    whole = mdtest_output("4.0.0", {"File stat": [40.0]}, tables=("rate", "time"))
    text = whole.replace("16 tasks,", fewer + "\n16 tasks,", 1)
    found = read_results(written(tmp_path, text))
    assert [(each.clients, each.nodes, each.rates["file_stat"].mean) for each in found] == [
        (4, None, 10.0),
        (16, 2, 40.0),
    ]


def test_outputs_put_together_are_results_of_their_own(tmp_path: Path) -> None:
    text = mdtest_output("1.9.3", {"File creation": [1.0]}) + mdtest_output(
        "4.1.0+dev", {"File stat": [2.0]}, tasks=8
    )
    found = read_results(written(tmp_path, text))
    assert [(each.program, each.clients, list(each.rates)) for each in found] == [
        ("mdtest 1.9.3", 16, ["file_creation"]),
        ("mdtest 4.1.0+dev", 8, ["file_stat"]),
    ]


def test_lines_of_others_within_the_table_change_nothing(tmp_path: Path) -> None:
    text = mdtest_output("1.9.3", {"File creation": [56220.165]}, of="files")
    noise = (
        "stonewall rank 1: 200366 of 227928 \n[1541263145.2] [m2:24089:0]  mxm.c:196  MXM  "
        "WARN  ulimit\n"
    )
    text = text.replace("   File stat", noise + "   File stat")
    stonewall = (
        "   File create (stonewall)   :             NA             NA     198586.700      "
        "       NA\n"
    )
    text = text.replace("   Tree creation", stonewall + "   Tree creation")
    assert read_one(tmp_path, text).rates["file_creation"].mean == 56220.165


def test_an_output_that_ends_early_is_told(tmp_path: Path) -> None:
    text = mdtest_output("3.4.0+dev", {"File creation": [5.0]}, of="files", finished=False)
    file = written(tmp_path, text)
    assert not read_results(file)[0].whole
    said = CliRunner().invoke(make_app(), ["metadata", str(file)])
    assert said.exit_code == 0
    assert "ends before its program had finished" in said.stderr


@pytest.mark.parametrize("summary", [True, False], ids=["summary", "rows alone"])
@pytest.mark.parametrize("version", ["2.10.3", "3.0.1", "3.2.0", "3.3.0+dev", "4.1.0+dev"])
def test_ior_as_text(version: str, summary: bool, tmp_path: Path) -> None:
    rates = {"write": [1500.25, 2000.75], "read": [475798.0, 475798.0]}
    found = read_one(tmp_path, ior_output(version, rates, summary=summary))
    assert (found.program, found.clients, found.nodes, found.unit) == (
        f"IOR {version}",
        64,
        16,
        "bytes/s",
    )
    assert found.rates["write"].max == 2000.75 * MIB
    assert found.rates["write"].min == 1500.25 * MIB
    assert found.rates["write"].mean == 1750.5 * MIB
    assert found.rates["write"].stddev == 250.25 * MIB
    assert found.rates["read"].mean == 475798 * MIB


def test_ior_2_without_rows_has_the_means_of_its_table(tmp_path: Path) -> None:
    """`Max Write` below the table was taken for the mean."""
    rates = {"write": [1500.25, 2000.75], "read": [475798.0, 475798.0]}
    text = ior_2_quiet("2.10.3", rates)
    found = read_one(tmp_path, text)
    assert found.rates["write"] == Rate(1750.5 * MIB, 2000.75 * MIB, 1500.25 * MIB, 250.25 * MIB)
    assert (found.clients, found.nodes, found.whole, found.highest) == (64, 16, True, [])
    assert found.rates["read"].mean == 475798 * MIB
    both = read_results(written(tmp_path, text + ior_2_quiet("2.10.1", {"read": [7.0]})))
    assert [each.rates["read"].mean / MIB for each in both] == [475798, 7]


@pytest.mark.parametrize("repetitions", ["1", "5", ""])
def test_the_highest_of_several_repetitions_is_no_mean(tmp_path: Path, repetitions: str) -> None:
    options = f"repetitions         : {repetitions}\n" if repetitions else ""
    text = f"IOR-3.2.0: MPI\n{options}Max Write: 11.50 MiB/sec (12.06 MB/sec)\nFinished : now\n"
    assert read_one(tmp_path, text).highest == ([] if repetitions == "1" else ["write"])
    said = CliRunner().invoke(make_app(), ["metadata", str(tmp_path / "mdtest easy.txt")])
    told = "write: the highest of all repetitions" in " ".join(said.stderr.split())
    assert told == (repetitions != "1")


def without_a_number(rate: float, text: str) -> str:
    """Return an output in which a program printed `nan` in place of a rate, or its JSON NaN."""
    shown = next(shown for shown in (f"{rate:.3f}", f"{rate:.2f}", str(rate)) if shown in text)
    return text.replace(shown, "NaN" if text.startswith("{") else "nan")


@pytest.mark.parametrize(
    ("text", "phase", "others"),
    [
        (ior_output("3.3.0", {"write": [11.5, 30.5], "read": [7.0]}), "write", {"read"}),
        (
            ior_output("3.3.0", {"write": [11.5, 30.5], "read": [7.0]}, summary=False),
            "write",
            {"read"},
        ),
        (
            "IOR-4.0.0: MPI\nMax Write: 11.50 MiB/sec\nMax Read: 7.00 MiB/sec\nFinished : now\n",
            "write",
            {"read"},
        ),
        (
            "access,bw(MiB/s),numTasks,iter\nwrite,11.50,4,0\nwrite,30.5,4,1\nread,7.0,4,0\n",
            "write",
            {"read"},
        ),
        (
            '{"tests": [{"Results": [[{"access": "write", "bwMiB": 11.50}],'
            '[{"access": "write", "bwMiB": 30.5}, {"access": "read", "bwMiB": 7.0}]]}]}',
            "write",
            {"read"},
        ),
        (
            mdtest_output("4.0.0", {"File stat": [11.5], "File read": [7.0]}, of="files"),
            "file_stat",
            {"file_read"},
        ),
    ],
    ids=["summary", "rows", "maxima", "csv", "json", "mdtest"],
)
def test_an_iteration_without_a_number_leaves_its_phase_unknown_and_is_told(
    tmp_path: Path, text: str, phase: str, others: set[str]
) -> None:
    file = written(tmp_path, without_a_number(11.5, text))
    said = CliRunner().invoke(make_app(), ["metadata", str(file)])
    assert said.exit_code == ExitCode.OK
    assert f"no rate of {phase}: the output has nan" in " ".join(said.stderr.split())
    (row,) = [line for line in said.stdout.splitlines() if "not known" in line]
    assert TITLES.get(phase, phase.capitalize()) in row
    (found,) = read_results(file)
    assert (found.unknown, set(found.rates)) == ([phase], others)


def test_an_output_of_nan_alone_says_which_phase_had_no_number(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"holds no rate: write: no numbers \(nan\)"):
        read_one(tmp_path, without_a_number(11.5, ior_output("3.3.0", {"write": [11.5]})))


def test_ior_that_is_cut_anywhere_gives_no_other_rate(tmp_path: Path) -> None:
    text = ior_output("3.3.0", {"read": [5342.25, 5342.25]})
    seen: set[bool] = set()
    for end in range(len(text)):
        try:
            found = read_results(written(tmp_path, text[:end]))
        except HeadraceError:
            continue
        for result in found:
            assert result.rates["read"].mean == pytest.approx(5342.25 * 2**20, rel=1e-3), end
            seen.add(result.whole)
    assert seen == {True, False}, "a result without the last iteration is said to lack something"


IOR_CSV = """\
access,bw(MiB/s),IOPS,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),numTasks,iter
write,1500.25,6001,1024,256,0.001,0.002,0.003,0.004,4,0
read,2500.5,6001,1024,256,0.001,0.002,0.003,0.004,4,0
"""


@pytest.mark.parametrize(
    "text",
    [IOR_CSV, ior_output("4.1.0", {"write": [1500.25], "read": [2500.5]})],
    ids=["csv", "summary"],
)
def test_results_of_ior_that_are_cut_have_no_other_rate(tmp_path: Path, text: str) -> None:
    for end in range(text.index("write"), len(text)):
        try:
            found = read_results(written(tmp_path, text[:end]))
        except HeadraceError as error:
            assert "no row of a write" in str(error) or "did not end" in str(error), end
            continue
        for each in found:
            rates = {access: rate.mean / MIB for access, rate in each.rates.items()}
            assert rates.items() <= {"write": 1500.25, "read": 2500.5}.items(), end


def test_a_csv_of_ior_that_is_cut_is_told(tmp_path: Path) -> None:
    for text, whole in ((IOR_CSV.rstrip(), True), (IOR_CSV[:-5], False)):
        found = read_one(tmp_path, text)
        assert (found.whole, set(found.rates)) == (whole, {"write", "read"} if whole else {"write"})


@pytest.mark.parametrize("version", VERSIONS)
def test_mdtest_that_is_cut_anywhere_gives_no_other_rate(version: str, tmp_path: Path) -> None:
    """Seven of the eight numbers of a row per rank are a row of another version."""
    rates = {"File creation": [1000.25, 2000.75], "File stat": [500.125, 700.125]}
    text = mdtest_output(version, rates, of="files")
    whole = read_one(tmp_path, text)
    for end in range(text.index("File creation"), len(text)):
        try:
            found = read_one(tmp_path, text[:end])
        except HeadraceError as error:
            assert "no phase of this run" in str(error) or "holds no rate" in str(error), end
            continue
        assert found.whole == ("-- finished" in text[:end]), end
        assert found.rates.items() <= whole.rates.items(), end


def test_a_table_alone_without_its_last_end_of_line_is_whole(tmp_path: Path) -> None:
    table = mdtest_tables("1.9.3", {"File stat": [5.0]}).rstrip()
    assert read_one(tmp_path, table).whole
    assert not read_one(tmp_path, table[:-1]).whole


def wrapped(text: str, columns: int) -> str:
    """Return a text as a mail program sends it: long lines broken at spaces."""
    lines: list[str] = []
    for line in text.splitlines():
        while len(line) > columns and (at := line.rstrip().rfind(" ", 0, columns)) > 12:
            lines.append(line[:at])
            line = line[at + 1 :]
        lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("columns", [50, 72, 78])
@pytest.mark.parametrize("version", ["1.9.3", "3.2.0", "3.3.0+dev", "4.0.0"])
def test_mdtest_that_a_mail_program_wrapped_has_the_same_rates(
    tmp_path: Path, version: str, columns: int
) -> None:
    """Its rows were "broken"."""
    rates = {"File creation": [12345.678, 9345.5], "File stat": [99.0, 101.0]}
    text = mdtest_output(version, rates)
    whole = read_one(tmp_path, text)
    assert max(map(len, text.splitlines())) > columns
    found = read_one(tmp_path, wrapped(text, columns))
    assert (found.rates, found.whole) == (whole.rates, whole.whole)


@pytest.mark.parametrize("columns", [60, 72, 78])
@pytest.mark.parametrize("version", ["3.0.1", "3.2.0", "3.3.0+dev", "4.1.0+dev"])
def test_ior_that_a_mail_program_wrapped_has_the_same_rates(
    tmp_path: Path, version: str, columns: int
) -> None:
    text = ior_output(version, {"write": [1500.25, 2000.75], "read": [475798.0, 7.0]})
    whole = read_one(tmp_path, text)
    found = read_one(tmp_path, wrapped(text, columns))
    assert (found.rates, found.clients, found.nodes) == (whole.rates, whole.clients, whole.nodes)


def test_ior_that_read_alone_has_no_write(tmp_path: Path) -> None:
    assert set(read_one(tmp_path, ior_output("3.2.0", {"read": [1228.18]})).rates) == {"read"}


def test_ior_whose_rows_are_gone_has_its_highest(tmp_path: Path) -> None:
    lines = ior_output("3.3.0", {"write": [1228.18]}).splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(("write", "Summary")))
    assert read_one(tmp_path, text).rates["write"].max == 1228.18 * MIB


IOR_MB = """IOR-{version}: MPI Coordinated Test of Parallel I/O

Summary:
	clients            = 64 (4 per node)
	repetitions        = {repetitions}

access    bw(MB/s)   block(KB)  xfer(KB)   open(s)    wr/rd(s)   close(s)   iter
------    --------   ---------  --------   -------    --------   --------   ----
write     250.00     1024.00    256.00     0.001      0.01       0.001      0

Max Write: 250.00 MB/sec
Run finished: Thu Jan  5 12:00:00 2006
"""


@pytest.mark.parametrize("without", ["Max", "write"])
@pytest.mark.parametrize(("version", "unit"), [("2.5.3", MIB), ("2.8.7", 10**6), ("2.10.3", 10**6)])
def test_the_megabytes_of_old_versions_are_those_of_their_manual(
    tmp_path: Path, version: str, unit: int, without: str
) -> None:
    """Rows in MB were read as MiB, and a file of the lines `Max Write` alone was no output."""
    lines = IOR_MB.format(version=version, repetitions=1).splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(without))
    found = read_one(tmp_path, text)
    assert found.rates["write"].mean == 250 * unit
    assert (found.clients, found.nodes, found.highest) == (64, 16, [])
    lone = read_one(tmp_path, f"IOR-{version}: MPI\nMax Write: 250.00 MB/sec\n")
    assert lone.rates["write"].max == 250 * unit


@pytest.mark.parametrize("line", ["Max Write: 250.00 MB/sec", "Max Read:  250.00 MB/sec (a)"])
def test_megabytes_of_a_version_that_is_not_known_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(StudyError) as caught:
        read_results(written(tmp_path, f"\n{line}\n"))
    (fault,) = caught.value.problems
    assert "rates are in MB, and its version is not known" in str(fault)
    assert fault.line == 2 and "10^6 since then" in fault.allowed


def ior_json(**changed: Any) -> str:
    line = {"operation": "write", "TestID": 0, "numTasks": 4, "tasksPerNode": 4}
    line |= {"bwMaxMIB": 3.0, "bwMinMIB": 1.0, "bwMeanMIB": 2.0, "bwStdMIB": 1.0}
    rows = [
        [{"access": "write", "bwMiB": bw, "totalTime": 1.0}, {"access": "remove"}]
        for bw in (1.0, 3.0)
    ]
    test = {"TestID": 0, "Options": {"tasks": 4, "clients per node": 4}, "Results": rows}
    return json.dumps({"Version": "4.0.0", "tests": [test], "summary": [line], **changed})


@pytest.mark.parametrize("text", [ior_json(), ior_json(summary=[])], ids=["summary", "rows alone"])
def test_ior_as_json(text: str, tmp_path: Path) -> None:
    found = read_one(tmp_path, text)
    assert (found.program, found.clients, found.nodes) == ("IOR 4.0.0", 4, 1)
    rate = found.rates["write"]
    assert (rate.max, rate.min, rate.mean, rate.stddev) == (3 * MIB, 1 * MIB, 2 * MIB, 1 * MIB)


def test_ior_as_csv(tmp_path: Path) -> None:
    header = (
        "access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),"
        "numTasks,iter"
    )
    rows = [
        "write,30.5,30.3,1.5,131072.0,1024.0,15.0,202.2,35.0,202.6,48,0",
        "read,2012,2,1,1,1,1,1,1,1,48,0",
    ]
    found = read_one(tmp_path, "\n".join([header, *rows]))
    assert (found.clients, found.rates["write"].mean, found.rates["read"].mean) == (
        48,
        30.5 * MIB,
        2012 * MIB,
    )


def test_runs_of_ior_put_together_are_results_of_their_own(tmp_path: Path) -> None:
    """A job script writes one file; only some versions print the table of all tests."""
    rates = ({"write": [100.0]}, {"write": [300.0], "read": [400.0]}, {"read": [500.0]})
    text = ior_output("3.3.0", rates[0]) + ior_output("4.1.0+dev", rates[1], summary=False)
    found = read_results(written(tmp_path, text + ior_output("2.10.3", rates[2])))
    assert [each.program for each in found] == ["IOR 3.3.0", "IOR 4.1.0+dev", "IOR 2.10.3"]
    assert [{name: rate.mean / MIB for name, rate in each.rates.items()} for each in found] == [
        {name: values[0] for name, values in each.items()} for each in rates
    ]


def test_columns_say_which_run_of_a_file_they_are_of(
    tmp_path: Path,
) -> None:
    text = "".join(ior_output("3.3.0", {"write": [rate]}) for rate in (100.0, 300.0))
    several, one = written(tmp_path, text), tmp_path / "one.txt"
    one.write_text(ior_output("3.3.0", {"write": [200.0]}))
    said = CliRunner().invoke(make_app(), ["metadata", str(several), str(one)])
    # Headings are folded to the width of a column.
    shown = re.sub(r"[^\w,]+", "", said.stdout)
    assert "run1" in shown and "run2" in shown and "run3" not in shown
    assert "onetxt,run" not in shown


def test_tables_of_all_tests_alone_are_results_of_their_own(tmp_path: Path) -> None:
    """As `grep -A` leaves them: both have the test 0."""
    text = "".join(ior_output("3.3.0", {"write": [rate]}) for rate in (100.0, 300.0))
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("IOR-"))
    found = read_results(written(tmp_path, text))
    assert [each.rates["write"].mean / MIB for each in found] == [100, 300]


def test_a_run_of_ior_without_a_rate_among_others_is_told(tmp_path: Path) -> None:
    text = "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n" + ior_output(
        "3.3.0", {"read": [9.0]}
    )
    found = read_one(tmp_path, text)
    assert (found.rates["read"].mean, found.whole) == (9 * MIB, False)


@pytest.mark.parametrize("ior_first", [True, False])
def test_both_programs_in_one_file_are_read(tmp_path: Path, ior_first: bool) -> None:
    texts = [ior_output("3.3.0", {"write": [100.0]}), mdtest_output("4.0.0", {"File stat": [5.0]})]
    found = read_results(written(tmp_path, "".join(texts if ior_first else texts[::-1])))
    assert {each.program: list(each.rates) for each in found} == {
        "mdtest 4.0.0": ["file_stat"],
        "IOR 3.3.0": ["write"],
    }


@pytest.mark.parametrize("tag", ["[1,0]<stdout>:", "[prterun-n1-7@1,0]<stdout>: ", "[0] ", " 0: "])
def test_what_launchers_put_before_each_line_is_passed_over(tmp_path: Path, tag: str) -> None:
    """mpirun --tag-output, mpiexec -prepend-rank, srun --label."""
    for text in (
        mdtest_output("1.9.3", {"File stat": [5.0]}),
        ior_output("3.3.0", {"read": [5.0]}),
        json.dumps(json.loads(ior_json()), indent=2),
    ):
        tagged = "".join(f"{tag}{line}\n" for line in text.splitlines())
        assert read_one(tmp_path, tagged) == read_one(tmp_path, text)


def test_json_of_ior_between_other_lines(tmp_path: Path) -> None:
    text = json.dumps(json.loads(ior_json()), indent=2)
    lines = f"{{n1}} WARNING: no device\n{text}\nsrun: done\n"
    assert read_one(tmp_path, lines) == read_one(tmp_path, text)
    assert len(read_results(written(tmp_path, lines + lines))) == 2
    (found,) = read_results(written(tmp_path, lines + text[:200]))
    assert not found.whole


def test_tables_of_csv_are_results_of_their_own(tmp_path: Path) -> None:
    header = "access,bw(MiB/s),IOPS,numTasks,iter\n"
    rows = "write,10,1,4,0\nread,20,1,4,0\nwrite,30,1,4,1\nread,40,1,4,1\n"
    found = read_results(written(tmp_path, header + rows + "write,90,1,8,0\n" + header + rows))
    assert [(each.clients, each.rates["write"].mean / MIB) for each in found] == [
        (4, 20.0),
        (8, 90.0),
        (4, 20.0),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello", "is neither the output of mdtest nor of IOR"),
        ("", "is neither the output of mdtest nor of IOR"),
        ("\0\1\2", "is neither the output of mdtest nor of IOR"),
        ('{"summary": 3}', "is not JSON of IOR"),
        ('{"summary": [', "is not JSON of IOR"),
        ('{"summary": [{}]}', 'is not JSON of IOR: "TestID" is missing'),
        (ior_json(summary=[{"TestID": None, "numTasks": 1, "tasksPerNode": 1}]), "the wrong type"),
        (
            ior_json().replace('"tasksPerNode": 4', '"tasksPerNode": Infinity'),
            "a field has a value of the wrong type",
        ),
        ("{" + '"a":[' * 5000, "is not JSON of IOR"),
        ('{"a": 1}', "IOR's JSON holds no result"),
        ("SUMMARY rate: (of 1 iterations)\n", "no phase of this run of mdtest has a rate"),
        (
            "SUMMARY rate:\n   File creation   1.0 2.0\n",
            ":2: file: a row of mdtest's table is broken",
        ),
        (
            "mdtest-4.0.0 was launched with 2 total task(s) on 1 node(s)\n",
            "table SUMMARY rate is missing",
        ),
        (
            "Summary of all tests:\nOperation one two\nwrite 1 2\n",
            ":3: file: a row of IOR's table is broken",
        ),
        ("IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n", "IOR's output holds no rate"),
        (mdtest_output("4.0.0", {"File stat": [0.0]}), "no phase of this run of mdtest has a rate"),
        (
            mdtest_output("4.0.0", {"File stat": [float("nan")]}),
            "no phase of this run of mdtest has a rate",
        ),
    ],
)
def test_what_is_no_output_is_refused_with_its_name(tmp_path: Path, text: str, said: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(StudyError) as caught:
        read_results(file)
    (fault,) = caught.value.problems
    assert str(fault).startswith(str(file))
    assert said in str(fault)
    assert caught.value.exit_code == ExitCode.BAD_INPUT


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        (mdtest_output("4.0.0", {"File stat": [1.0]}, tasks=16), "tasks", 3),
        (mdtest_output("4.0.0", {"File stat": [1.0]}, tasks=4, nodes=16), "nodes", 3),
        (mdtest_tables("4.0.0", {"File stat": [1.0]}, tasks=16), "tasks", 1),
        ("IOR-4.0.0: MPI\nSummary:\n  tasks : 16\nMax Read: 9.0 MiB/sec\n", "tasks", 3),
        ("IOR-4.0.0: MPI\nSummary:\n  nodes : 16\nMax Read: 9.0 MiB/sec\n", "nodes", 3),
        ("IOR-3.0.1: MPI\n clients = 16 (4 per node)\nMax Read: 9.0 MiB/sec\n", "clients", 2),
        (
            "IOR-4.0.0: MPI\nSummary:\n clients per node : 16\nMax Read: 9.0 MiB/sec\n",
            "clients per node",
            3,
        ),
    ],
)
@pytest.mark.parametrize("digits", [17, 5000])
def test_a_number_that_no_run_has_is_refused_with_its_line(
    tmp_path: Path, text: str, what: str, line: int, digits: int
) -> None:
    """Python converts no text of more than 4300 digits to a number."""
    file = written(tmp_path, re.sub(r"\b16\b", "9" * digits, text))
    with pytest.raises(StudyError) as caught:
        read_results(file)
    said = str(caught.value.problems[0])
    assert said.startswith(f"{file}:{line}: ") and f"too large a number of {what}" in said
    assert len(said) < 400


def test_more_than_a_thousand_million_files_are_as_many_as_large_runs_have(tmp_path: Path) -> None:
    """IO500 lists runs of mdtest with 1 720 000 000 files."""
    text = "1720 tasks, 1720000000 files\n\nSUMMARY rate: (of 1 iterations)\n"
    text += "   File stat      5.000   5.000   5.000   0.000\n"
    (found,) = read_results(written(tmp_path, text))
    assert (found.clients, found.about["items"]) == (1720, 1_720_000_000)


def test_an_endless_file_is_refused() -> None:
    with pytest.raises(StudyError, match="longer than 256 MiB"):
        read_results(Path("/dev/zero"))


def test_the_table_leaves_phases_blank_and_the_rest_is_shown_when_a_file_is_none(
    tmp_path: Path,
) -> None:
    for name, rates in (
        ("a", {"File creation": [1000.0]}),
        ("b", {"File creation": [500.0], "File stat": [7.0]}),
    ):
        (tmp_path / name).write_text(
            mdtest_output("3.4.0+dev", rates, of="files", tables=("rate", "time"))
        )
    (tmp_path / "c").write_text("nothing")
    said = CliRunner().invoke(make_app(), ["metadata", *(str(tmp_path / name) for name in "abc")])
    assert said.exit_code == ExitCode.BAD_INPUT
    assert f"{tmp_path / 'c'}: file: is neither" in said.stderr
    rows = {
        line.split("│")[1].strip(): line.split("│")[2:]
        for line in said.stdout.splitlines()
        if "│" in line
    }
    assert [cell.strip() for cell in rows["File creation"][:2]] == ["1,000", "500"]
    assert [cell.strip() for cell in rows["File stat"][:2]] == ["", "7"]
    assert "File read" not in rows


@pytest.mark.parametrize(
    "results",
    [
        '{"phases": {"file_stat": 3}}',
        '{"phases": {}}',
        '{"phases": {}, "clients": Infinity}',
        '{"phases": null, "clients": 1}',
    ],
)
def test_a_damaged_record_of_a_trial_is_named(tmp_path: Path, results: str) -> None:
    folder = tmp_path / "results" / "trials" / "0000"
    folder.mkdir(parents=True)
    (folder / "trial.json").write_text(
        f'{{"workload": {{"kind": "metadata"}}, "results": {results}}}'
    )
    with pytest.raises(StudyError) as caught:
        read_results(tmp_path / "results")
    assert str(folder / "trial.json") in str(caught.value.problems[0])


def test_trials_that_cannot_be_trusted_enter_no_rate(tmp_path: Path) -> None:
    """A mean over repeats included invalid ones, without a word."""
    for number, (target, rate, status, valid) in enumerate(
        [
            ("disk", 100.0, "done", True),
            ("disk", 900.0, "done", False),
            ("disk", 900.0, "failed", True),
            ("ssd", 900.0, "done", False),
        ]
    ):
        folder = tmp_path / "results" / "trials" / f"{number:04}"
        folder.mkdir(parents=True)
        trial = {
            "workload": {"kind": "metadata"},
            "levels": {"target": target},
            "status": status,
            "validity": {"valid": valid},
            "results": {"clients": 1, "phases": {"file_stat": {"rate_ops_per_s": rate}}},
        }
        (folder / "trial.json").write_text(json.dumps(trial))
    disk, ssd = read_results(tmp_path / "results")
    assert (disk.rates["file_stat"].mean, disk.left_out) == (100, 2)
    assert (ssd.rates, ssd.left_out) == ({}, 1)
    said = CliRunner().invoke(make_app(), ["metadata", str(tmp_path / "results")])
    assert said.exit_code == 0 and "1 client," in said.stdout
    assert "headrace disk: 2 trials left out" in said.stderr
    assert "headrace ssd: 1 trial left out" in said.stderr and "ssd" not in said.stdout
    shutil.rmtree(tmp_path / "results" / "trials" / "0000")
    with pytest.raises(StudyError, match="holds no valid trial"):
        read_results(tmp_path / "results")
