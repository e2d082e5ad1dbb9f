"""`headrace power [STUDY]`: the present watts of power meters, with an idle baseline."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from headrace.cli._console import err, out
from headrace.errors import MissingError, Problem, UsageError
from headrace.system.waiting import wait_until
from headrace.units import format_seconds, parse_seconds

if TYPE_CHECKING:
    from headrace.meters import Meter
    from headrace.meters.live import ChannelPower, LiveMeters
    from headrace.report.text_table import TextTable

_REFRESH_S = 0.5


def power(
    study: Annotated[
        Path | None,
        typer.Argument(help="a study file, for its meters (default: the meters of this machine)"),
    ] = None,
    meter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND[,FIELD=VALUE]",
            help="a meter, such as shelly,address=192.168.1.20, with fields of \\[meter.NAME]",
        ),
    ] = None,
    idle: Annotated[
        str | None, typer.Option(help='first measure idle power for this long: "30 s"')
    ] = None,
    seconds: Annotated[
        str | None, typer.Option(help="end after this time (default: at Ctrl-C)")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="show the power once, and end")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON object per sample and line")
    ] = False,
) -> None:
    """Show the present power that meters read: those of a study, of `--meter`, or of this machine.

    A terminal shows a table. Through a pipe, each sample is one line. Ctrl-C ends the command.
    """
    from headrace.meters.live import LiveMeters

    idle_s, most_s = _time_s(idle, "--idle"), _time_s(seconds, "--seconds")
    chosen = _chosen(study, meter or [])
    live = LiveMeters(chosen.meters, idle_s or 0.0, frozenset(chosen.uncovered))
    show = _Lines(as_json) if as_json or not out.is_terminal else _Screen()
    live.start()
    try:
        if idle_s:
            _measure_idle(live)
        with show:
            wait_until(lambda: show.show(live) or once, most_s or math.inf, _REFRESH_S)
    finally:
        live.stop()
    if not show.shown:
        errors = "; ".join(f"{name}: {error}" for name, error in live.errors().items())
        raise MissingError(f"no meter reported its power: {errors or 'none answered in time'}")


def _time_s(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from None


# -- which meters --


@dataclass
class _Chosen:
    """The meters to show."""

    meters: dict[str, Meter] = field(default_factory=dict[str, "Meter"])
    uncovered: set[str] = field(default_factory=set[str])
    """Meters of which nobody knows what their power flows into."""


def _chosen(study: Path | None, named: Sequence[str]) -> _Chosen:
    """Return the meters that the user names, or those of this machine. Each can be read."""
    found = _Chosen()
    if study is None and not named:
        return _of_this_machine()
    if study is not None:
        from headrace.engine.measure.trial_meters import meter_of
        from headrace.library import load_study

        parts = load_study(study).study.meters
        if not parts:
            raise UsageError(
                f"{study} has no [meter.NAME]", hint="docs/energy.md has an example of each kind"
            )
        found.meters |= {name: meter_of(part) for name, part in parts.items()}
    for text in named:
        made = _named(text)
        alike = sum(each.kind == made.kind for each in found.meters.values())
        if made.name in found.meters:
            made.name = f"{made.kind}-{alike + 1}"
        found.meters[made.name] = made
    for name, each in list(found.meters.items()):
        if not each.live:
            del found.meters[name]
            err.print(f"meter {name} is a log, read after each trial: not shown", style="yellow")
    problems = [problem for each in found.meters.values() for problem in each.check()]
    if problems or not found.meters:
        raise MissingError(
            _listed(problems) or "no meter tells its present power",
            hint="nothing was started; the fields of a meter are in docs/energy.md",
        )
    return found


def _of_this_machine() -> _Chosen:
    from headrace import meters

    here = [found for kind in meters.kinds().values() for found in kind.on_this_machine()]
    chosen = _Chosen()
    for found in here:
        if found.meter is not None and found.meter.live:
            chosen.meters[found.meter.name] = found.meter
            if not found.covered:
                chosen.uncovered.add(found.meter.name)
    if not chosen.meters:
        lacks = "\n".join(f"  {found.what}: {found.lacks}" for found in here if found.lacks)
        raise MissingError(
            f"this machine has no power meter that can be read\n{lacks}",
            hint="or name a meter on the network: headrace power --meter "
            "shelly,address=192.168.1.20; docs/energy.md lists the kinds",
        )
    if any(found.lacks for found in here):
        err.print("`headrace doctor` says what further meters lack", style="dim")
    return chosen


def _named(text: str) -> Meter:
    """Return a meter of the option `--meter`."""
    from headrace import meters
    from headrace.registry import nearest
    from headrace.validation import made_of

    kind, *fields = text.split(",")
    kinds = meters.kinds()
    if kind not in kinds:
        close = nearest(kind, list(kinds))
        meant = f"; did you mean {close}?" if close else ""
        raise UsageError(f"--meter: unknown kind {kind}{meant}", hint=f"kinds: {', '.join(kinds)}")
    table: dict[str, object] = {}
    for each in fields:
        name, equals, value = each.partition("=")
        if not equals:
            raise UsageError(
                f"--meter {text}: {each} has no value", hint=f"write it like {kind},FIELD=VALUE"
            )
        table[name.strip()] = value.strip()
    return kinds[kind](kind, made_of(kinds[kind].Options, table, f"--meter {kind}"))


def _listed(problems: Sequence[Problem]) -> str:
    return "\n".join(f"{each.needed_by}: {each.what}; {each.remedy}" for each in problems)


# -- idle power --


def _measure_idle(live: LiveMeters) -> None:
    """Measure idle power, and say whether the machine was idle."""
    from headrace.system.machine_use import LoadWatch, Own, usable_cpus

    err.print(f"measuring idle power for {format_seconds(live.idle_s)}: leave the machine alone")
    watch = LoadWatch(usable_cpus(), Own())
    live.measure_idle()
    use = watch.finish(Own())
    busy, stolen = use.foreign_s / use.window_s, use.steal_s / use.window_s
    if busy + stolen > 0.05 * use.cpus:
        names = ", ".join(each.name for each in use.programs[:3] if each.cpu_s > 0.1)
        err.print(
            f"the machine was not idle: other programs used {busy:.1f} of {use.cpus:g} CPUs"
            f"{f' ({escape(names)})' if names else ''}"
            f"{f', the hypervisor withheld {stolen:.1f}' if stolen > 0.01 * use.cpus else ''}"
            "; measure again when they have ended",
            style="yellow",
        )
    for (name, channel), made in live.idle.items():
        if not made.usable:
            reasons = "; ".join(made.reasons)
            err.print(f"idle power of {name} {channel}: {escape(reasons)}", style="yellow")


# -- what is shown --


class _Lines:
    """One line per sample, for other programs: columns with tabs, or JSON."""

    def __init__(self, as_json: bool) -> None:
        self.shown = 0
        self._as_json = as_json
        self._errors: Mapping[str, str] = {}

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def show(self, live: LiveMeters) -> None:
        """Print the samples that are new."""
        for each in live.new():
            if not self.shown and not self._as_json:
                print("time\tmeter\tchannel\tcovers\tpower_w\tuncertainty_w\tidle_power_w")
            self.shown += 1
            print(_json(each) if self._as_json else "\t".join(_fields(each)), flush=True)
        errors = live.errors()
        for name, error in errors.items():
            if self._errors.get(name) != error:
                err.print(f"meter {name}: {escape(error)}", style="yellow")
        self._errors = errors


def _wall(time_s: float) -> str:
    """Return a time on the monotonic clock as text."""
    found = datetime.fromtimestamp(time.time() - time.monotonic() + time_s, UTC)
    return found.isoformat(timespec="milliseconds")


def _fields(each: ChannelPower) -> Iterator[str]:
    yield from (_wall(each.time_s), each.meter, each.channel.name, each.covers)
    yield f"{each.power_w:.3f}"
    yield f"{each.uncertainty_w:.3f}"
    yield "" if each.idle_w is None else f"{each.idle_w:.3f}"


def _json(each: ChannelPower) -> str:
    channel = each.channel
    return json.dumps(
        {
            "time": _wall(each.time_s),
            "meter": each.meter,
            "kind": each.kind,
            "channel": channel.name,
            "covers": each.covers,
            "within": channel.within,
            "source": "measured",
            "power_w": each.power_w,
            "uncertainty_w": each.uncertainty_w,
            "accuracy": channel.accuracy,
            "accuracy_source": channel.accuracy_source,
            "interval_s": channel.interval_s,
            "mean_power_w": each.mean_w,
            "idle_power_w": each.idle_w,
        }
    )


class _Screen:
    """A table in a terminal, kept up to date."""

    def __init__(self) -> None:
        from rich.live import Live

        self.shown = 0
        self._live = Live(console=out, auto_refresh=False)

    def __enter__(self) -> _Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, live: LiveMeters) -> None:
        """Show the present power."""
        from rich.console import Group
        from rich.text import Text

        rows = live.present()
        self.shown += len(rows)
        sources = dict.fromkeys(
            f"{each.meter}: measured by {each.kind}, accuracy {100 * each.channel.accuracy:g} % "
            f"({each.channel.accuracy_source})"
            for each in rows
        )
        below = [Text(source, style="dim") for source in sources]
        errors = [
            Text(f"meter {name}: {error}", style="yellow") for name, error in live.errors().items()
        ]
        self._live.update(Group(_table(rows, bool(live.idle)), *below, *errors), refresh=True)


def _table(rows: Sequence[ChannelPower], with_idle: bool) -> TextTable:
    from headrace.report.text_table import TextTable

    idle = ("idle W", "above idle W") if with_idle else ()
    table = TextTable("meter", "channel", "covers", "W", "±", "mean W", *idle)
    for each in rows:
        cells = [each.meter, each.channel.name, each.covers, _watts(each.power_w)]
        cells += [_watts(each.uncertainty_w), _watts(each.mean_w)]
        if with_idle:
            above_w = None if each.idle_w is None else each.power_w - each.idle_w
            cells += [_watts(each.idle_w), _watts(above_w)]
        table.add_row(*map(escape, cells))
    return table


def _watts(power_w: float | None) -> str:
    if power_w is None:
        return ""
    return f"{power_w:.1f}" if abs(power_w) >= 10 else f"{power_w:.2f}"
