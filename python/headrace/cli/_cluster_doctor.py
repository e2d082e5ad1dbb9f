"""What `headrace cluster doctor` examines, and how it prints what it finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from headrace.cli._console import out
from headrace.errors import HeadraceError, Problem, UsageError, as_word
from headrace.launchers import kinds, split_on
from headrace.launchers.remote.diagnosis import ClusterFinding
from headrace.launchers.remote.examination import Examination, FolderWanted, examine, not_reached
from headrace.launchers.remote.survey import NamedNodes, cluster_of

if TYPE_CHECKING:
    from headrace.engine.measure.cluster_needs import ClusterNeeds
    from headrace.library import LoadedStudy


@dataclass(frozen=True)
class Request:
    """What the user wants to be examined."""

    on: str | None
    nodes: int | None
    python: str | None
    shared: Sequence[Path]


@dataclass(frozen=True)
class ExaminedCluster:
    """One cluster with what was found."""

    on: str
    examination: Examination
    note: str = ""


def examine_cluster(wanted: Request) -> list[ExaminedCluster]:
    """Examine the nodes that `--on` names."""
    if wanted.on is None:
        raise UsageError("no nodes are named", hint="give a study, or --on ssh://HOST,HOST")
    try:
        cluster = cluster_of(wanted.on, _count(wanted.on, wanted.nodes), wanted.python)
    except UsageError:
        raise
    except HeadraceError as error:
        return [ExaminedCluster(wanted.on, not_reached(wanted.on, error))]
    folders = [FolderWanted(str(each.expanduser().absolute())) for each in wanted.shared]
    return [_examined(cluster, folders, None, wanted.nodes)]


def examine_study(file: Path, wanted: Request) -> list[ExaminedCluster]:
    """Examine what a study needs on the nodes that it names; `--on` chooses one of several."""
    from headrace.engine.measure.cluster_needs import cluster_needs
    from headrace.library import load_study

    loaded = load_study(file)
    needs = cluster_needs(loaded.study, loaded.plan())
    known = ", ".join(each.on for each in needs)
    if not needs:
        raise UsageError(
            f"{file} runs on this machine alone: [run] on names no nodes",
            hint=f"headrace doctor {as_word(file)}",
        )
    if wanted.on is not None:
        needs = [each for each in needs if each.on == wanted.on]
        if not needs:
            raise UsageError(f"{file} has no trials on {wanted.on}", hint=f"it names {known}")
    found = [_of_study(each, wanted) for each in needs]
    if any(finding.fatal for each in found for finding in each.examination.findings):
        note = "the rest of the study is checked when what is needed is there"
        return [*found[:-1], replace(found[-1], note=note)]
    return _with_problems(loaded, found)


def _of_study(needs: ClusterNeeds, wanted: Request) -> ExaminedCluster:
    # [run] python may be that of another `on` of the study.
    python = needs.python if kinds()[split_on(needs.on)[0]].starts_python else None
    cluster = cluster_of(
        needs.on, wanted.nodes or needs.nodes, wanted.python or python, needs.batch
    )
    folders = [FolderWanted(str(each.expanduser().absolute())) for each in wanted.shared]
    for own, each in ((False, needs.shared), (True, needs.own)):
        folders += [
            FolderWanted(folder.folder, f"target {folder.target}", folder.create, own)
            for folder in sorted(each, key=lambda folder: folder.folder)
        ]
    return _examined(cluster, folders, needs.capabilities, wanted.nodes)


def _count(on: str, nodes: int | None) -> int | None:
    return nodes if "://" in on else nodes or 1


def _examined(
    cluster: NamedNodes, folders: list[FolderWanted], needed: set[str] | None, nodes: int | None
) -> ExaminedCluster:
    if cluster.part.nodes_at_once or nodes is not None:
        return ExaminedCluster(cluster.on, examine(cluster, folders, needed))
    lacks = cluster.part.check(cluster.wanted)
    found = (
        [] if lacks is None else [ClusterFinding(*lacks, fatal=True, without="no study runs there")]
    )
    note = "its nodes are not there before a run; --nodes N requests N of them and looks at them"
    return ExaminedCluster(cluster.on, Examination(findings=found), note)


def _with_problems(loaded: LoadedStudy, found: list[ExaminedCluster]) -> list[ExaminedCluster]:
    """Add what the check before a run says of the study."""
    names = {node.name for each in found for node in each.examination.nodes}
    problems = [_of_problem(problem, names) for problem in loaded.check()]
    last = found[-1]
    known = {(each.what, name) for each in last.examination.findings for name in each.nodes}
    new = [each for each in problems if not {(each.what, name) for name in each.nodes} & known]
    findings = [*[each for each in new if each.fatal], *last.examination.findings]
    findings += [each for each in new if not each.fatal]
    return [*found[:-1], replace(last, examination=replace(last.examination, findings=findings))]


def _of_problem(problem: Problem, names: set[str]) -> ClusterFinding:
    node, _, what = problem.what.partition(": ")
    where = (node,) if node in names else ()
    text = f"{what if where else problem.what} (for {problem.needed_by})"
    without = problem.without or ("the study does not start" if problem.fatal else "")
    return ClusterFinding(text, problem.remedy, where, problem.fatal, without)


def able(found: Sequence[ExaminedCluster]) -> bool:
    """Return whether nothing fatal was found."""
    return not any(finding.fatal for each in found for finding in each.examination.findings)


def print_found(found: Sequence[ExaminedCluster]) -> None:
    """Print a paragraph for each finding: where, what, what to do, what it means."""
    for each in found:
        findings, count = each.examination.findings, len(each.examination.nodes)
        nodes = f"{count} {'node' if count == 1 else 'nodes'}"
        out.print(f"[bold]{escape(each.on)}[/bold]: {nodes} reached", highlight=False)
        for finding in findings:
            mark = "[red]needed[/red]" if finding.fatal else "[yellow]less[/yellow]"
            every = count > 1 and len(finding.nodes) == count
            all_of_them = "all nodes" if each.examination.whole else "the nodes reached"
            who = all_of_them if every else ", ".join(finding.nodes)
            said = f"{who}: {finding.what}" if who else finding.what
            _print_indented(mark, said)
            if finding.remedy:
                _print_indented("", f"to do: {finding.remedy}")
            if finding.without:
                _print_indented("", f"so: {finding.without}")
        if each.note:
            out.print(escape(each.note), style="dim")
        elif not findings:
            out.print("[green]nothing is wrong or missing[/green]")


def _print_indented(mark: str, text: str) -> None:
    """Print a text with a mark before it, its further lines below the first."""
    from rich.table import Table

    line = Table.grid()
    line.add_column(width=8)
    line.add_column()
    line.add_row(mark, escape(text))
    out.print(line)


def as_json(found: Sequence[ExaminedCluster]) -> str:
    """Return what was found as JSON."""
    from headrace.cli._nodes import plain_status

    clusters = [
        {
            "on": each.on,
            "nodes": [plain_status(node) for node in each.examination.nodes],
            "findings": [asdict(finding) for finding in each.examination.findings],
            "note": each.note,
        }
        for each in found
    ]
    return json.dumps({"able": able(found), "clusters": clusters}, indent=1)


def finish(found: Sequence[ExaminedCluster], *, with_json: bool) -> None:
    """Print what was found; exit with MISSING when something needed is missing."""
    from headrace.errors import ExitCode

    if with_json:
        typer.echo(as_json(found))
    else:
        print_found(found)
    if not able(found):
        raise typer.Exit(int(ExitCode.MISSING))
