"""What is wrong with the nodes of a cluster, and what to do: `headrace cluster doctor`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from headrace.launchers.remote.shared_folders import FolderViews
from headrace.launchers.remote.survey import SurveyedNode
from headrace.system.key_states import KeyState
from headrace.system.machine_facts import MachineFacts
from headrace.units import format_bytes

MOST_UNCERTAINTY_S = 0.05
"""Half of the start spread that is always allowed (docs/cluster.md)."""
MOST_WALL_S = 1.0
"""Clocks of the day that differ by more spoil logs, series of services, and certificates."""
_BUSY = 0.05
"""Share of a node's CPUs whose use by others is reported, as in `headrace doctor`."""
_FEW_FILES = 1024
_LITTLE_SPACE = 1 << 30
_LITTLE_MEMORY = 0.1
"""Share of a node's memory."""
_DAY_S = 86_400.0
_SOON_S = 30 * _DAY_S


@dataclass(frozen=True)
class ClusterFinding:
    """One thing that is wrong or missing."""

    what: str
    remedy: str
    nodes: tuple[str, ...] = ()
    """Names of the nodes; none: this machine, or the cluster as a whole."""
    fatal: bool = False
    """Whether no study can run on these nodes, or the study that was given cannot."""
    without: str = ""
    """What still works, or does not."""


def diagnose(
    nodes: Sequence[SurveyedNode],
    here: MachineFacts,
    wall_less_monotonic_s: float,
    kernel: str,
    needed: Collection[str] | None = None,
) -> list[ClusterFinding]:
    """Return the findings about nodes.

    `here` and the two after it describe this machine. `needed`: the capabilities that a study
    needs; None: all.
    """
    return [
        *_versions(nodes, here),
        *_one_machine(nodes),
        *_clocks(nodes, wall_less_monotonic_s, kernel),
        *(finding for node in nodes for finding in _limits(node)),
        *_governors(nodes),
        *(finding for node in nodes for finding in _load(node)),
        *(each for node in nodes for each in judge_keys(node.keys, node.name, _away(node, kernel))),
        *_capabilities(nodes, needed),
    ]


def _away(node: SurveyedNode, kernel: str) -> bool:
    return node.hello.kernel != kernel


def merged(findings: Iterable[ClusterFinding]) -> list[ClusterFinding]:
    """Return the findings with the nodes of equal ones together, fatal ones first."""
    by_key: dict[ClusterFinding, list[str]] = {}
    for each in findings:
        key = ClusterFinding(each.what, each.remedy, (), each.fatal, each.without)
        by_key.setdefault(key, []).extend(each.nodes)
    found = [
        ClusterFinding(key.what, key.remedy, tuple(dict.fromkeys(names)), key.fatal, key.without)
        for key, names in by_key.items()
    ]
    return sorted(found, key=lambda each: not each.fatal)


def _versions(nodes: Sequence[SurveyedNode], here: MachineFacts) -> list[ClusterFinding]:
    found: list[ClusterFinding] = []
    for node in nodes:
        machine = node.hello.machine
        if machine.headrace != here.headrace:
            found.append(
                ClusterFinding(
                    f"has Headrace {machine.headrace}, this machine {here.headrace}",
                    "install the same version on all nodes",
                    (node.name,),
                    fatal=True,
                    without="no study runs there",
                )
            )
        if machine.python != here.python:
            found.append(
                ClusterFinding(
                    f"has Python {machine.python}, this machine {here.python}",
                    "use the same Python, or compare only results of the same nodes",
                    (node.name,),
                    without="studies run; computing may take another time",
                )
            )
    return found


def _one_machine(nodes: Sequence[SurveyedNode]) -> list[ClusterFinding]:
    by_kernel: dict[str, list[str]] = {}
    for node in nodes:
        by_kernel.setdefault(node.hello.kernel, []).append(node.name)
    return [
        ClusterFinding(
            "one machine: they share a kernel",
            "start one worker, or name each host once, to compare nodes",
            tuple(names),
            without="studies run; CPUs, page cache and settings of storage are common to them",
        )
        for names in by_kernel.values()
        if len(names) > 1
    ]


def _clocks(nodes: Sequence[SurveyedNode], wall_s: float, kernel: str) -> list[ClusterFinding]:
    found: list[ClusterFinding] = []
    for node in nodes:
        uncertain_s = node.clock.uncertainty_s
        if uncertain_s > MOST_UNCERTAINTY_S:
            found.append(
                ClusterFinding(
                    f"clock known to {uncertain_s:.3g} s only: it answers slowly",
                    "use a faster connection, or a machine close to the nodes for the command",
                    (node.name,),
                    without="trials whose start spread must be below this are invalid",
                )
            )
        # At one moment: its clock of the day less ours. The monotonic clocks cancel out.
        ahead_s = node.facts.wall_less_monotonic_s - node.clock.offset_s - wall_s
        if _away(node, kernel) and abs(ahead_s) > MOST_WALL_S + uncertain_s:
            found.append(
                ClusterFinding(
                    f"clock of the day {abs(ahead_s):.1f} s "
                    f"{'ahead of' if ahead_s > 0 else 'behind'} this machine's",
                    "keep it right with chrony or ntpd",
                    (node.name,),
                    without="studies run, which use monotonic clocks; keys made here may not be "
                    "valid there yet, and logs disagree",
                )
            )
    return found


def _limits(node: SurveyedNode) -> list[ClusterFinding]:
    limits, memory = node.facts.limits, node.hello.machine.memory_bytes or 0
    found: list[ClusterFinding] = []

    def add(what: str, remedy: str, without: str) -> None:
        found.append(ClusterFinding(what, remedy, (node.name,), without=without))

    if 0 <= limits.open_files < _FEW_FILES:
        add(
            f"a process may have {limits.open_files} open files",
            "raise it: ulimit -n, or LimitNOFILE of the service that starts workers",
            "many slots or clients of servers may fail with too many open files",
        )
    if limits.memory_bytes is not None and limits.memory_bytes < memory:
        add(
            f"{format_bytes(limits.memory_bytes)} of {format_bytes(memory)} of memory: "
            "a control group limits it",
            "raise the limit of the service, container or batch job",
            "jobs and their page cache have that much together",
        )
    if limits.memory_free_bytes < _LITTLE_MEMORY * memory:
        add(
            f"{format_bytes(limits.memory_free_bytes)} of memory free",
            "end other programs there",
            "jobs may be killed, and the page cache is small",
        )
    return [*found, *little_space(node)]


def little_space(node: SurveyedNode) -> list[ClusterFinding]:
    """Return a finding when the folder for temporary files has little space."""
    limits = node.facts.limits
    if limits.temporary_free_bytes >= _LITTLE_SPACE:
        return []
    return [
        ClusterFinding(
            f"{format_bytes(limits.temporary_free_bytes)} free in {limits.temporary}",
            "make room, or let TMPDIR name another folder",
            (node.name,),
            without="logs and temporary files of jobs may not fit",
        )
    ]


def _governors(nodes: Sequence[SurveyedNode]) -> list[ClusterFinding]:
    return [
        ClusterFinding(
            f"frequency of its CPUs follows the load: governor {', '.join(changing)}",
            "cpupower frequency-set -g performance",
            (node.name,),
            without="studies run; times scatter more",
        )
        for node in nodes
        if (changing := [name for name in node.facts.limits.governors if name != "performance"])
    ]


def _load(node: SurveyedNode) -> list[ClusterFinding]:
    cpus, facts = node.hello.machine.cpus or 1, node.facts
    without = "trials whose jobs wait for them are invalid"
    found: list[ClusterFinding] = []
    if facts.others_cpus > _BUSY * cpus:
        what = f"other programs use {facts.others_cpus:.1f} of {cpus} CPUs"
        found.append(ClusterFinding(what, "end them, or wait", (node.name,), without=without))
    if facts.stolen_cpus > _BUSY * cpus:
        what = f"its hypervisor withholds {facts.stolen_cpus:.1f} of {cpus} CPUs (steal)"
        remedy = "use a host with fewer machines, or CPUs of its own"
        found.append(ClusterFinding(what, remedy, (node.name,), without=without))
    return found


def judge_keys(
    keys: Sequence[KeyState], node: str = "", away: bool = False
) -> list[ClusterFinding]:
    """Return what is wrong with keys and certificates. `node`: on which; empty: this machine.

    `away`: on another machine, where the key that signs others does not belong.
    """
    names = (node,) if node else ()
    found: list[ClusterFinding] = []
    for key in keys:
        if key.lacks:
            remedy = "correct its name or permissions, or make new keys: headrace cluster init"
            without = "no connection with TLS"
            found.append(ClusterFinding(f"{key.file}: {key.lacks}", remedy, names, True, without))
        if key.open_to_others:
            what = f"others can {'read' if key.secret else 'change'} {key.file}"
            without = "studies run; a reader of the key can run programs on the nodes"
            remedy = f"chmod {'600' if key.secret else 'go-w'} it; if others were there, new keys"
            found.append(ClusterFinding(what, remedy, names, without=without))
        if away and key.file.endswith("/ca-key.pem"):
            what = f"{key.file}, which signs keys, is on a node"
            without = "studies run; its readers there can make keys"
            found.append(ClusterFinding(what, "remove it there", names, without=without))
        found += _validity(key, names)
    return found


def _validity(key: KeyState, names: tuple[str, ...]) -> list[ClusterFinding]:
    if key.ends_in_s is None:
        return []
    renew = "make new keys: headrace cluster init --directory NEW, and copy them to the nodes"
    without = "no connection with TLS"
    if key.begins_in_s > 0:
        what = f"{key.file} is valid in {key.begins_in_s / 3600:.1f} h only, by the clock there"
        return [ClusterFinding(what, "set the clock", names, True, without)]
    if key.ends_in_s <= 0:
        days = -key.ends_in_s / _DAY_S
        what = f"{key.file} has been invalid for {days:.0f} days"
        return [ClusterFinding(what, renew, names, True, without)]
    if key.ends_in_s < _SOON_S:
        what = f"{key.file} is valid for {key.ends_in_s / _DAY_S:.0f} more days"
        return [ClusterFinding(what, renew, names, without="then no connection with TLS")]
    return []


def _capabilities(
    nodes: Sequence[SurveyedNode], needed: Collection[str] | None
) -> list[ClusterFinding]:
    return [
        ClusterFinding(
            f"no {each.what}", each.remedy, (node.name,), without=f"it gives: {each.gives}"
        )
        for node in nodes
        for each in node.facts.capabilities
        if not each.there and (needed is None or each.what in needed)
    ]


def judge_folder(views: FolderViews, names: Sequence[str], wanted_by: str) -> list[ClusterFinding]:
    """Return what is wrong with a folder that all nodes must share. `wanted_by`: a target."""
    found: list[ClusterFinding] = []
    folder = views.folder
    without = f"no trial of {wanted_by}" if wanted_by else "no target in it"
    for node, why in views.refused.items():
        where = (node,) if node else ()
        what = f"{'' if node else 'this machine: '}{why}"
        remedy = "create it, and let the user of the node write there"
        found.append(ClusterFinding(what, remedy, where, True, without))
    remedy = "mount the same file system there"
    unseen = [pair for pair in views.unseen if pair[0] not in views.refused]
    for node in names:
        if ("", node) in unseen:
            what = f"does not see what this machine writes into {folder}"
            found.append(ClusterFinding(what, remedy, (node,), True, without))
        elif (node, "") in unseen:
            what = f"this machine does not see what it writes into {folder}"
            found.append(ClusterFinding(what, remedy, (node,), True, without))
        else:
            blind = [
                other for other in names if (node, other) in unseen and ("", other) not in unseen
            ]
            verb = "does" if len(blind) == 1 else "do"
            what = f"{', '.join(blind)} {verb} not see what it writes into {folder}"
            found += [ClusterFinding(what, remedy, (node,), True, without)] if blind else []
    return found


def judge_own_folder(views: FolderViews, names: Sequence[str], target: str) -> list[ClusterFinding]:
    """Return which nodes share a folder that each must have for itself."""
    found: list[ClusterFinding] = []
    unseen = set(views.unseen)
    for number, node in enumerate(names):
        if node in views.refused:
            why = views.refused[node]
            without = f"trials of {target} fail"
            remedy = "create it, and let the user of the node write there"
            found.append(ClusterFinding(why, remedy, (node,), True, without))
            continue
        same = [other for other in names[number + 1 :] if (node, other) not in unseen]
        if same:
            found.append(
                ClusterFinding(
                    f"see one folder at {views.folder}, where each must have its own",
                    'leave out on = "node", or use {node} in the path: the node\'s number',
                    (node, *same),
                    True,
                    f"no trial of {target}",
                )
            )
    return found
