"""A verdict in five lines of at most 80 columns; pure."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import PurePath

from headrace.system.children import signal_name
from headrace.units import format_amount, format_bytes, format_seconds
from headrace.verdict.advice import Advice
from headrace.verdict.limit import ProgramLimit, faults_limit, limit_of
from headrace.verdict.observation import STORAGE, Access, Observation, PageFaults, TimeShare

COLUMNS = 80
LINES = 5
_SHOWN_LEAST = 0.01
_NAME_COLUMNS = 28
_FILE_COLUMNS = 18
_TIED = "\u00a0"
"""Ties a number to its unit until lines are wrapped."""
_RANDOM = 0.5
"""From this share of jumps on, reads are called random."""
_SEQUENTIAL = 0.1
_ONE_CORE = 1.1
"""A program that uses more has threads or processes that compute at the same time."""
_SYNCS = ("fsyncs", "synchronous writes")
_MANY = 20
"""Fewer calls are no habit that could be changed."""
_UNKNOWN_LEAST = 0.2
"""Bounds that are closer say hardly more than the share itself."""
_TELLING = 0.05
"""A smaller part of the time is no reason to change anything."""


@dataclass(frozen=True)
class ProgramVerdict:
    """What the observation means."""

    observation: Observation
    limit: ProgramLimit
    sentences: tuple[str, ...]
    """The whole text: time, limit, change, doubt."""
    lines: tuple[str, ...]
    """The same in five lines, cut where it is longer."""
    advice: Advice | None = None
    no_advice: str = ""
    """Why nothing was simulated."""


def verdict_of(
    seen: Observation, advice: Advice | None = None, no_advice: str = ""
) -> ProgramVerdict:
    """Return the verdict on an observation, with simulations of it or why there are none."""
    limit = limit_of(seen)
    if advice is not None and advice.trusted:
        change = _advice_words(advice)
    else:
        change = _change_words(seen, limit)
    sentences = (
        _time_line(seen),
        f"Limit: {_limit_words(seen, limit)}.",
        f"Change: {change}.",
        _doubt(seen, advice, no_advice),
    )
    lines = [*sentences[:2]]
    lines += _wrapped(sentences[2], LINES - len(lines) - 1)
    lines += _wrapped(sentences[3], LINES - len(lines))
    return ProgramVerdict(
        seen,
        limit,
        tuple(each.replace(_TIED, " ") for each in sentences),
        tuple(_fit(line).replace(_TIED, " ") for line in lines),
        advice,
        no_advice,
    )


def percent(fraction: float) -> str:
    """Return a share of the time."""
    return f"{100 * fraction:.0f}{_TIED}%"


def short(name: str, columns: int = _NAME_COLUMNS) -> str:
    """Return a name with its middle left out if it is long."""
    if len(name) <= columns:
        return name
    half = (columns - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def share_words(share: TimeShare) -> str:
    """Return what a part of the time was spent on."""
    where = short(share.where)
    words = {
        "cpu": "on CPU",
        "wait-cpu": "waiting for CPU",
        "block": f"block I/O on {where}" if where else "block I/O",
        "network": f"network storage {where}" if where else "network storage",
        "memory": "waiting for memory",
        "connection": f"connection to {where}" if where else "connections",
        "sleep": "asleep",
        "pipe": "pipes or terminal",
        "lock": "locks",
        "file-lock": "waiting for a file lock",
        "other": "other",
    }
    return words[share.kind]


def _time_line(seen: Observation) -> str:
    """Return the shares that fit into a line; what does not fit is the rest."""
    shown = [
        share
        for share in seen.shares
        if share.kind != "other" and share.seconds >= _SHOWN_LEAST * seen.wall_s
    ]
    of = f", sums of {seen.summed_threads} threads" if seen.summed_threads else ""
    whole = f"{format_seconds(seen.wall_s)}{exit_words(seen.exit_code)}{of}: "
    cut = False
    while True:
        rest_s = seen.wall_s - sum(share.seconds for share in shown)
        parts = [f"{percent(share.seconds / seen.wall_s)} {share_words(share)}" for share in shown]
        if rest_s >= _SHOWN_LEAST * seen.wall_s:
            named = "rest" if cut else "other"
            parts.append(f"{percent(rest_s / seen.wall_s)} {named}")
        line = f"{whole}{', '.join(parts)}"
        if len(line) <= COLUMNS or not shown:
            return line
        shown.pop()
        cut = True


def exit_words(code: int | None) -> str:
    """Return how a program ended, if not with exit code 0."""
    if not code:
        return ""
    if code < 0:
        return f", {signal_name(-code)}"
    return f", exit code {code}"


def _limit_words(seen: Observation, limit: ProgramLimit) -> str:
    if limit.kind == "too-short":
        return f"not known: {format_seconds(seen.wall_s)} is too short to judge"
    if limit.kind in STORAGE:
        reads = access_words(limit.access) if limit.access is not None else ""
        if seen.faults is not None and faults_limit(seen, limit):
            reads = fault_words(seen.faults)
        name = short(limit.where) or _unseen_words(seen)
        return f"{name}{': ' if reads else ''}{reads}"
    words = {
        "cpu": f"the CPU: it computes, on {_cores_words(seen)}",
        "wait-cpu": _few_cpus_words(seen, limit.fraction),
        "memory": "memory: what it had read was dropped, and is read again"
        + (", from swap" if seen.swapped_in else ""),
        "connection": _connection_words(seen),
        "sleep": "nothing of this machine: it sleeps, or waits for a timer",
        "pipe": "another program or a terminal, at a pipe",
        "lock": "itself: its threads wait for one another",
        "file-lock": "the lock of a file, which another program holds (flock, fcntl)",
    }
    if limit.kind == "other" and seen.hidden:
        return "not known: it sleeps, and what it waits for is not readable"
    return words.get(limit.kind, "not known: it neither ran nor waited for storage")


def _few_cpus_words(seen: Observation, waited: float) -> str:
    alone = _saved_alone(seen)
    if alone == waited:
        return f"too few CPUs: for {percent(waited)} of its time it could run and had none"
    takers = "its own threads" if alone < _TELLING else "its threads and other programs"
    return f"too few CPUs for {takers}: it used {_cores_words(seen)}"


def _cores_words(seen: Observation) -> str:
    used = f"{_cores_used(seen):.2f}"
    if not seen.cores:  # not known of an imported recording, nor with hashed names
        return f"{used} cores"
    return f"{used} of {_counted(seen.cores, 'core')}"


def _cores_used(seen: Observation) -> float:
    return max(seen.cpu_s, seen.seconds("cpu")) / seen.wall_s


def _unseen_words(seen: Observation) -> str:
    """Return what is known of waits for storage that no recorded call shows."""
    number = seen.major_faults
    faults = f", {_counted(number, 'page fault')} among them" if number else ""
    return f"storage, in waits that its calls do not show{faults}"


def _connection_words(seen: Observation) -> str:
    if not seen.connections:
        return "another program, at a socket: it has no lasting TCP connection"
    where = short(", ".join(seen.connections))
    use = seen.connection_use
    if use is None:
        return f"a connection: it waits for {where}"
    number = max(1, use.requests)
    size = format_amount(use.received_bytes // number)
    each = format_seconds(seen.seconds("connection") / number)
    trip = f", RTT {format_seconds(use.round_trip_s)}" if use.round_trip_s else ""
    return f"{where}: {_counted(number, 'request')} of {size}, {each} each{trip}"


def fault_words(faults: PageFaults) -> str:
    """Return how many page faults waited, what each moved and how long it took."""
    size = f", {format_amount(faults.mean_bytes)} each" if faults.mean_bytes else ""
    number = _counted(faults.number, "page fault")
    return f"{number} of mapped files{size}, {format_seconds(faults.mean_s)} a wait"


def access_words(access: Access) -> str:
    """Return the reads on a place: size, order, span, and how long each waited."""
    if access.slow_reads == 0 or access.other_calls_s > access.waited_s / 2:
        calls = _calls_words(access) if access.slowest_other else "opens, writes or fsyncs wait"
        wrote = f"; {format_amount(access.bytes_written)} written" if access.bytes_written else ""
        return f"{calls}{wrote}"
    order = (
        "at random"
        if access.random_fraction >= _RANDOM
        else "in order"
        if access.random_fraction <= _SEQUENTIAL
        else "partly in order"
    )
    return (
        f"reads of {format_bytes(round(access.read_bytes_median))} {order} over "
        f"{format_amount(access.span_bytes)}, {format_seconds(access.slow_read_s)} a wait"
    )


def _calls_words(access: Access) -> str:
    """Return how many calls of a kind waited, for how long, and on which file."""
    name = access.slowest_other.removesuffix("s" if access.slow_others == 1 else "")
    calls = f"{access.slow_others} {name} of {format_seconds(access.slow_other_s)}"
    if not access.slow_other_files:
        return calls
    first, more = PurePath(access.slow_other_files[0]).name, len(access.slow_other_files) - 1
    return f"{calls} ({short(first, _FILE_COLUMNS)}{f', {more} more' if more else ''})"


def _change_words(seen: Observation, limit: ProgramLimit) -> str:
    on_storage, bounds = seen.fraction(*STORAGE), _bounds_words(seen)
    saves = bounds or (
        f"no storage would save more than {percent(on_storage)}"
        if on_storage >= _SHOWN_LEAST
        else "no storage would make it faster"
    )
    if limit.kind == "too-short":
        return "run it on more events, 10 s or longer, for an answer"
    if limit.kind in STORAGE:
        save = bounds or (f"storage that answers at once would save {percent(on_storage)}, at most")
        return f"{save}{_fewer_words(limit.access)}"
    if limit.kind == "other" and seen.hidden:
        return "not known; its owner, or root, sees what it waits for"
    words = {
        "cpu": f"{saves}; {_cpu_words(seen)}",
        "wait-cpu": _more_cpu_words(seen, limit.fraction),
        "memory": f"more memory, or fewer jobs at once; {saves}",
        "connection": _nearer_words(seen, limit),
        "sleep": f"what it waits for must come sooner; {saves}",
        "pipe": f"watch the program at the other end; {saves}",
        "lock": f"{saves}; threads that share less",
        "file-lock": f"find the program that holds the lock (lslocks); {saves}",
    }
    return words.get(limit.kind, saves)


def _bounds_words(seen: Observation) -> str:
    """Return what faster storage would save if threads wait for it while others run; else nothing.

    Whether these need what the others wait for is not seen.
    """
    if seen.waits_bounds_s is None or not seen.wall_s:
        return ""
    least, most = (each_s / seen.wall_s for each_s in seen.waits_bounds_s)
    if most - least < _UNKNOWN_LEAST:
        return ""
    return (
        f"storage that answers at once would save {100 * least:.0f} to {percent(most)}: threads "
        "wait while others run"
    )


def _nearer_words(seen: Observation, limit: ProgramLimit) -> str:
    """Return what would help at a connection; a socket may be one of this machine."""
    save = f"would save {percent(limit.fraction)}, at most"
    if not seen.connections:
        return f"a faster program at the other end {save}"
    return f"a nearer or faster server, or a local copy, {save}"


def _fewer_words(access: Access | None) -> str:
    """Return what would help a program that waits for its data to be on stable storage."""
    if access is None or access.slowest_other not in _SYNCS or access.slow_others < _MANY:
        return ""
    if access.slow_others * access.slow_other_s < access.waited_s / 2:
        return ""
    if access.slow_others < 2 * len(access.slow_other_files):
        return ""  # each file is synced when it is complete
    name = "commits" if access.slowest_other == "fsyncs" else "records"
    return (
        f"; fewer {access.slowest_other}, too: each waits for the drive, so group several "
        f"{name} into one"
    )


def _cpu_words(seen: Observation) -> str:
    """Return what would help a program that computes. More cores help one that uses several."""
    means = (
        "faster code, or more cores," if _cores_used(seen) > _ONE_CORE else "faster code or CPUs"
    )
    waited = _saved_alone(seen)
    fewer = f"; fewer jobs at once, by {percent(waited)} at most" if waited >= _TELLING else ""
    return f"{means} would{fewer}"


def _saved_alone(seen: Observation) -> float:
    """Return what a program that waits for CPUs would save without other jobs, at most.

    Its own threads wait for one another's CPUs, too: even alone it takes its CPU time over the
    number of cores.
    """
    waited = seen.fraction("wait-cpu")
    return min(waited, max(0.0, 1 - _cores_used(seen) / seen.cores)) if seen.cores else waited


def _more_cpu_words(seen: Observation, waited: float) -> str:
    """Return what would help a program that waits for CPUs most of its time."""
    alone = _saved_alone(seen)
    if alone < _TELLING:
        return f"more cores would save {percent(waited)}, at most: its own threads take turns"
    fewer = f"fewer jobs at once on these cores would save {percent(alone)}, at most"
    if alone == waited:
        return fewer
    return f"{fewer}; more cores {percent(waited)}, as its own threads take turns"


def _advice_words(advice: Advice) -> str:
    """Return what the alternatives save, most first, and which save nothing or cost time."""
    saves: list[tuple[float, str]] = []
    others: dict[str, list[str]] = {"nothing": [], "slower": []}
    for change in advice.changes:
        saved, beyond = advice.saved(change), advice.uncertainty(change)
        least = max(beyond, _SHOWN_LEAST)
        if saved >= least:
            tolerance = max(1, round(100 * beyond))
            words = f"{percent(saved)}{_TIED}±{_TIED}{tolerance} by {change.name}"
            saves.append((saved, words))
        else:
            others["slower" if saved < -least else "nothing"].append(change.name)
    saves.sort(key=lambda each: -each[0])
    parts = [f"would save {', '.join(words for _, words in saves)}"] if saves else []
    parts += [f"{effect}: {', '.join(names)}" for effect, names in others.items() if names]
    return "; ".join(parts)


def _doubt(seen: Observation, advice: Advice | None, no_advice: str) -> str:
    """Return how well the simulation agrees, what was not seen, and the sources of times."""
    said: list[str] = []
    if advice is not None:
        agrees = (
            f"{format_seconds(advice.present_s)} simulated, {format_seconds(advice.measured_s)} "
            f"measured ({100 * advice.error:+.0f}{_TIED}%)"
        )
        said.append(agrees if advice.trusted else f"no advice, since {agrees}")
    elif no_advice:
        said.append(f"not simulated: {no_advice}")
    samples = _counted(seen.samples, "sample") if seen.samples else "samples"
    sources = (samples if each == "samples" else each for each in seen.sources.split("+"))
    text = "; ".join([*said, *seen.lacks, f"from {', '.join(sources)}"])
    return f"{text[:1].upper()}{text[1:]}."


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _wrapped(text: str, most: int) -> list[str]:
    lines = textwrap.wrap(text, COLUMNS, subsequent_indent="  ", break_long_words=True)
    if len(lines) > most:
        lines = lines[: max(1, most)]
        lines[-1] = f"{lines[-1][: COLUMNS - 2]} …"
    return lines


def _fit(line: str) -> str:
    return line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…"
