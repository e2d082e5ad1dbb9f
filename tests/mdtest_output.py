"""Text as mdtest and IOR print it, from numbers: the formats of src/mdtest.c and src/ior-output.c
of github.com/hpc/ior.

Each function has one version's `printf` formats; no output of anybody's run is in it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

FILES = ("File creation", "File stat", "File read", "File removal")
DIRECTORIES = ("Directory creation", "Directory stat", "Directory rename", "Directory removal")
TREE = ("Tree creation", "Tree removal")
VERSIONS = ("1.8.4", "1.9.3", "3.3.0+dev", "3.3.0+dev ranks", "3.4.0+dev", "4.0.0", "4.1.0+dev")

_RULE = ("---", "---", "----", "-------")


def mdtest_output(
    version: str,
    rates: Mapping[str, Sequence[float]],
    *,
    of: str = "both",
    options: str = "-n 100",
    tasks: int = 16,
    nodes: int = 2,
    tables: Sequence[str] = ("rate",),
    finished: bool = True,
) -> str:
    """The whole output of a run.

    `rates`: row -> operations per second of each iteration; rows of phases that were not run are
    0. `of`: `files` (-F), `directories` (-D) or `both`. `tables`: `rate`, or `rate` and `time`
    (-P), or `time` (-Z).
    """
    number = version.split(" ")[0]
    words = (
        "files" if of == "files" else "directories" if of == "directories" else "files/directories"
    )
    return "\n".join(
        [
            "-- started at 01/02/2023 10:00:00 --",
            "",
            f"mdtest-{number} was launched with {tasks} total task(s) on {nodes} node(s)",
            f"Command line used: mdtest {' '.join(repr(word) for word in options.split())}",
            "Path                : /scratch",
            "FS                  : 1.0 TiB   Used FS: 2.0%   Inodes: 10.0 Mi   Used Inodes: 0.1%",
            "",
            mdtest_tables(version, rates, of=of, tables=tables, tasks=tasks, words=words),
            *(["-- finished at 01/02/2023 10:05:00 --", ""] if finished else []),
        ]
    )


def mdtest_tables(
    version: str,
    rates: Mapping[str, Sequence[float]],
    *,
    of: str = "both",
    tables: Sequence[str] = ("rate",),
    tasks: int = 16,
    words: str = "files",
) -> str:
    """What is printed for one number of tasks."""
    rows = [*(DIRECTORIES if of != "files" else ()), *(FILES if of != "directories" else ()), *TREE]
    iterations = max(len(values) for values in rates.values())
    text = f"{tasks} tasks, {tasks * 100} {words}\n"
    for what in tables:
        text += f"\n{_heading(version, what)} (of {iterations} iterations)\n" + _columns(version)
        for row in rows:
            values = list(rates.get(row, ())) or [0.0] * iterations
            if what == "time":
                # 100 items a task; a phase that was not run took no time.
                values = [tasks * 100 / value if value else 0.0 for value in values]
            text += _row(version, row, values)
    return text


def _heading(version: str, what: str) -> str:
    if version == "1.8.4":
        return "SUMMARY:"
    if version.startswith("4.0"):
        return f"SUMMARY {what} (in ops/sec):"  # of times too
    if version.startswith("4."):
        return f"SUMMARY {what} (in {'ops/sec' if what == 'rate' else 'ms/op'}):"
    return f"SUMMARY {what}:"


def _columns(version: str) -> str:
    if version.endswith("ranks"):
        return (
            "   Operation     per Rank: Max            Min           Mean      per Iteration:"
            " Max            Min           Mean        Std Dev\n"
            "   ---------               ---            ---           ----      "
            "               ---            ---           ----        -------\n"
        )
    return (
        "   Operation                     Max            Min           Mean        Std Dev\n"
        "   ---------                     ---            ---           ----        -------\n"
    )


def _row(version: str, row: str, values: Sequence[float]) -> str:
    deviation = statistics.pstdev(values) if len(values) > 1 else 0.0
    four = "".join(
        f"{each:14.3f} " for each in (max(values), min(values), statistics.fmean(values))
    )
    four += f"{deviation:14.3f}\n"
    if version.endswith("ranks"):
        ranks = "".join(
            f"{each / 16:14.3f} " for each in (max(values), min(values), statistics.fmean(values))
        )
        return (
            f"   {row:<18} {ranks}        {four}"
            if row not in TREE
            else f"   {row:<22} {ranks}    {four}"
        )
    if version.startswith("1."):
        return f"   {row:<18}: {four}"
    if version == "3.3.0+dev":
        return f"   {row:<26}: {four}"
    return f"   {row:<18}     {four}" if row not in TREE else f"   {row:<22} {four}"


# -- IOR -------------------------------------------------------------------------------------------

_SUMMARY_2 = (
    "Operation  Max (MiB)  Min (MiB)  Mean (MiB)   Std Dev  Max (OPs)  Min (OPs)  Mean (OPs)   "
    "Std Dev  Mean (s)  \n"
    "---------  ---------  ---------  ----------   -------  ---------  ---------  ----------   "
    "-------  --------\n"
)


def ior_output(version: str, rates: Mapping[str, Sequence[float]], *, summary: bool = True) -> str:
    """The output of a test with 64 clients on 16 nodes.

    `rates`: `write`, `read` -> MiB/s of each iteration.
    """
    if version.startswith("2."):
        return _ior_2(version, rates)
    more = "IOPS       Latency(s)  " if not version.startswith(("3.0", "3.2")) else ""
    rule = "----       ----------  " if more else ""
    text = f"IOR-{version}: MPI Coordinated Test of Parallel I/O\n"
    text += "Began               : Thu Jan  5 10:00:00 2023\nTestID              : 0\n\nOptions: \n"
    text += "api                 : POSIX\n" + ("nodes               : 16\n" if more else "")
    text += (
        "tasks               : 64\nclients per node    : 4\nrepetitions         : 2\n\n"
        "Results: \n\n"
    )
    text += (
        f"access    bw(MiB/s)  {more}block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   "
        f"total(s)   iter\n"
    )
    text += (
        f"------    ---------  {rule}---------- ---------  --------   --------   --------   "
        f"--------   ----\n"
    )
    for access, values in rates.items():
        for number, value in enumerate(values):
            shown = f"{value:<10.0f}" if value >= 3600 else f"{value:<10.2f}"
            extra = "7712       0.000059    " if more else ""
            rest = "45.91      45.91      0.023325   74.73      0.001193   74.76"
            text += f"{access:<10}{shown} {extra}{rest}      {number:<4}\n"
    text += (
        "remove    -          -          -          -          -          -          0.5        0\n"
    )
    if summary:
        for access, values in rates.items():
            title = f"Max {access.capitalize()}: " + (" " if access == "read" else "")
            text += f"{title}{max(values):.2f} MiB/sec ({max(values) * 1.048576:.2f} MB/sec)\n"
        text += "\nSummary of all tests:\n" + _ior_summary(rates)
    return text + "Finished            : Thu Jan  5 10:05:00 2023\n"


def _ior_summary(rates: Mapping[str, Sequence[float]]) -> str:
    text = f"{'Operation':<9}" + "".join(
        f" {name:>10}" for name in ("Max(MiB)", "Min(MiB)", "Mean(MiB)", "StdDev")
    )
    text += "".join(
        f" {name:>10}" for name in ("Max(OPs)", "Min(OPs)", "Mean(OPs)", "StdDev", "Mean(s)")
    )
    text += (
        " Test# #Tasks tPN reps fPP reord reordoff reordrand seed segcnt   blksiz    xsize "
        "aggs(MiB)   API RefNum\n"
    )
    for access, values in rates.items():
        numbers = (max(values), min(values), statistics.fmean(values), statistics.pstdev(values))
        text += f"{access:<9} " + "".join(f"{each:10.2f} " for each in (*numbers, *numbers))
        text += (
            "  74.75513     0     64   4    2   1     0        1         0    0      1 "
            "1048576  262144  4.0 POSIX      0\n"
        )
    return text


def _ior_2(version: str, rates: Mapping[str, Sequence[float]]) -> str:
    text = (
        f"IOR-{version}: MPI Coordinated Test of Parallel I/O\n\nRun began: Thu Jan  5 "
        f"10:00:00 2023\n"
    )
    text += (
        "Summary:\n\tapi                = POSIX\n\tclients            = 64 (4 per node)\n"
        "\trepetitions        = 2\n\n"
    )
    text += (
        "access    bw(MiB/s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s) "
        "  iter\n"
    )
    text += (
        "------    ---------  ---------- ---------  --------   --------   --------   -------- "
        "  ----\n"
    )
    for access, values in rates.items():
        for number, value in enumerate(values):
            text += (
                f"{access:<10}{value:<10.2f} 1024.00    256.00     0.0001     0.5        "
                f"0.0001     0.6        {number:<4}XXCEL\n"
            )
    return text + _ior_2_means(rates)


def ior_2_quiet(version: str, rates: Mapping[str, Sequence[float]]) -> str:
    """The output of version 2 without -vv: no row for an iteration."""
    whole = _ior_2(version, rates)
    return whole[: whole.index("access  ")] + _ior_2_means(rates)


def _ior_2_means(rates: Mapping[str, Sequence[float]]) -> str:
    text = "\n" + _SUMMARY_2
    for access, values in rates.items():
        mean, deviation = statistics.fmean(values), statistics.pstdev(values)
        text += (
            f"{access:<10}{max(values):10.2f} {min(values):10.2f}  {mean:10.2f}{deviation:10.2f} "
            f"{9e6:10.2f} {8e6:10.2f}  {8.5e6:10.2f}{1.0:10.2f}{0.6:10.5f}   EXCEL\n"
        )
    text += "\n"
    for access, values in rates.items():
        text += (
            f"Max {access.capitalize()}: {max(values):.2f} MiB/sec "
            f"({max(values) * 1.048576:.2f} MB/sec)\n"
        )
    return text + "\nRun finished: Thu Jan  5 10:05:00 2023\n"
