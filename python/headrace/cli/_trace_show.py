"""Output of `headrace trace show`: amounts, seeks, requests in flight, latencies, processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from headrace.cli._console import err, out
from headrace.units import format_amount, format_bytes, format_bytes_per_s

if TYPE_CHECKING:
    from headrace.traces import Statistics
    from headrace.traces.statistics import TraceDamage

_OPS = ("read", "write", "discard", "flush")


def show_statistics(found: Statistics) -> None:
    """Print the statistics of a trace."""
    _show_amounts(found)
    _show_seeks(found)
    out.print(_in_flight(found))
    _show_latencies(found)
    _show_processes(found)


def _show_amounts(found: Statistics) -> None:
    from headrace.report.text_table import TextTable

    total = found.total
    title = f"{escape(found.trace.name)}: {found.duration_s:.3f} s, {found.format}"
    stage = "issued" if any(total.amount(op)[0] for op in _OPS) else "queued"
    amounts = {op: total.amount(op, stage) for op in _OPS}
    # Most traces have no flushes or discards.
    ops = [op for op in _OPS if op in ("read", "write") or amounts[op][0]]
    table = TextTable("", *ops, title=title)
    table.add_row("requests", *(f"{amounts[op][0]:,}" for op in ops))
    table.add_row("moved", *("" if op == "flush" else format_amount(amounts[op][1]) for op in ops))
    if found.has_times:
        rates = {op: moved / found.duration_s for op, (_, moved) in amounts.items()}
        table.add_row(
            "rate", *("" if op == "flush" else format_bytes_per_s(rates[op]) for op in ops)
        )
        table.add_row("IOPS", *(f"{amounts[op][0] / found.duration_s:,.0f}" for op in ops))
    table.add_row(
        "sizes", *("" if op == "flush" else _sizes(total.values[op]["sizes_bytes"]) for op in ops)
    )
    out.print(table)
    if not found.has_times:
        out.print("the trace has no times: all its events are at one moment, so no rates are known")


def _show_seeks(found: Statistics) -> None:
    total = found.total
    if total.sequential_fraction is None:
        out.print(f"no request follows another: no seeks; merges {found.values['merges']:,}")
        return
    absolute, closeness = (
        total.values["seek_distance_absolute"],
        total.values["seek_distance_closeness"],
    )
    seeks = (
        f"{total.values['seeks']:,}" if total.seeks_per_s is None else f"{total.seeks_per_s:,.1f}/s"
    )
    out.print(
        f"seeks {seeks}, sequential {100 * total.sequential_fraction:.1f} %, merges "
        f"{found.values['merges']:,}; "
        f"distance from the end before: mean {format_bytes(absolute['mean_sectors'] * 512)}, "
        f"median {format_bytes(absolute['bytes_p50'])}; closeness as btt: mean "
        f"{format_bytes(closeness['mean_sectors'] * 512)}"
    )


def _in_flight(found: Statistics) -> str:
    """Return a text on the queue depth and on the requests it does not count."""
    total, values = found.total, found.values
    if total.queue_depth_max is None:
        return "requests in flight: not known, the trace does not say when requests completed"
    mean = "not known" if total.queue_depth_mean is None else f"{total.queue_depth_mean:.3g}"
    text = f"requests in flight: mean {mean}, most {total.queue_depth_max}"
    if values["reissues"]:
        text += (
            f"; {values['reissues']:,} were dispatched a second time without having been given "
            f"back, "
            "and are in flight once"
        )
    if values["unfinished"]:
        text += f"; {values['unfinished']:,} have no completion, and are not counted as in flight"
    if values["strays"]:
        text += (
            f"; {values['strays']:,} completions are of requests whose dispatch is not in the trace"
        )
    return text


def _sizes(sizes: list[list[int]]) -> str:
    count = sum(each for _, each in sizes)
    most = sorted(sizes, key=lambda pair: -pair[1])[:3]
    return (
        ", ".join(f"{format_bytes(size)} {100 * each / count:.0f} %" for size, each in most)
        if count
        else ""
    )


def warn_of_damages(damages: Sequence[TraceDamage], count: int, missing: int) -> None:
    """Print the first damages, how many there are, and how many events are missing."""
    for damage in damages:
        err.print(f"[yellow]{escape(str(damage))}[/yellow]")
    if count > len(damages):
        err.print(f"[yellow]… and {count - len(damages):,} more[/yellow]")
    if missing:
        err.print(
            f"[red]{missing:,} events are missing, which were lost when the trace was recorded: "
            f"numbers of requests, rates and depths are lower bounds, and latencies are those of "
            f"the rest[/red]"
        )


def warn(found: Statistics) -> None:
    """Print the damage of a trace."""
    warn_of_damages(found.damages, found.damage_count, found.missing)
    if cpus := found.trace.cpus_without_file:
        names = ", ".join(map(str, cpus))
        missing = "unless it was offline, events are missing"
        err.print(f"[yellow]no file of CPU {names}: {missing}[/yellow]")


def _show_latencies(found: Statistics) -> None:
    from headrace.report.text_table import TextTable

    rows = (("Q2C", found.total.queue_to_complete), ("D2C", found.total.dispatch_to_complete))
    if not any(latency for _, latency in rows):
        out.print("the trace does not say when requests completed: no latencies")
        return
    table = TextTable("latency, ms")
    for heading in ("count", "mean", "p50", "p90", "p99", "p99.9", "max"):
        table.add_column(heading, justify="right")
    for name, latency in rows:
        if latency is not None:
            times = (
                latency.mean_ns,
                latency.p50_ns,
                latency.p90_ns,
                latency.p99_ns,
                latency.p999_ns,
            )
            cells = [f"{ns / 1e6:.3f}" for ns in (*times, latency.max_ns)]
            table.add_row(name, f"{latency.count:,}", *cells)
    out.print(table)
    out.print(
        "Q2C: from queueing to completion; D2C: from dispatch to the driver to completion",
        style="dim",
    )


def _show_processes(found: Statistics) -> None:
    from headrace.report.text_table import TextTable

    table = TextTable("process")
    for heading in ("requests", "moved", "rate", "seeks/s", "in order", "p50 ms", "p99 ms"):
        table.add_column(heading, justify="right")
    for part in found.processes[:16]:
        latency = part.dispatch_to_complete or part.queue_to_complete
        table.add_row(
            f"{escape(part.name)} {part.pid}",
            f"{part.requests:,}",
            format_amount(part.bytes),
            "" if part.rate_bytes_per_s is None else format_bytes_per_s(part.rate_bytes_per_s),
            "" if part.seeks_per_s is None else f"{part.seeks_per_s:,.0f}",
            "" if part.sequential_fraction is None else f"{100 * part.sequential_fraction:.1f} %",
            *(f"{ns / 1e6:.3f}" for ns in ((latency.p50_ns, latency.p99_ns) if latency else ())),
        )
    out.print(table)
    if len(found.processes) > 16:
        out.print(f"… and {len(found.processes) - 16} more processes (--json has them)")
