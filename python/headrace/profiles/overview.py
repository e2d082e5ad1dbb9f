"""What a recorded job did, in words: the rows of `headrace profile show` and of its page."""

from __future__ import annotations

from headrace.profiles.steps import Recording, Unseen
from headrace.profiles.summary import Summary
from headrace.units import format_amount, format_bytes, format_seconds, format_share


def overview_title(recording: Recording) -> str:
    """Return the name of a recorded job with its command."""
    return f"{recording.name}: {' '.join(recording.command) or recording.by}"


def overview_rows(recording: Recording, summary: Summary) -> list[tuple[str, str]]:
    """Return names and values: time, bytes, sizes, order, work between reads, other calls."""
    return [
        ("time", f"{format_seconds(summary.duration_s)}, of it {format_seconds(summary.cpu_s)} "
                 f"of CPU time, {format_seconds(summary.in_calls_s)} in calls, "
                 f"{format_seconds(summary.cpu_wait_s)} waiting for a CPU"),
        ("processes", f"{recording.processes}; "
                      f"threads: {int(recording.steps.thread.max(initial=-1)) + 1}"
                      f"{'; ' if recording.exit else ''}{recording.exit}"),
        ("read", f"{format_amount(summary.bytes_read)} in {_counted(summary.reads, 'read')}"
                 f"{_empty_reads(summary)}"),
        *_about_reads(summary),
        ("written", f"{format_amount(summary.bytes_written)} in "
                    f"{_counted(summary.writes, 'write')}"),
        ("other calls", f"open {summary.opens}, stat {summary.stats}, seek {summary.seeks}, "
                        f"map {summary.maps}, fsync {summary.syncs}"),
        ("not seen", _unseen(recording.unseen)),
        ("software", f"{_counted(summary.software_files, 'file')}, "
                     f"{format_amount(summary.software_bytes)} read; left out of all above"),
    ]  # fmt: skip


def _empty_reads(summary: Summary) -> str:
    """Return how many calls read nothing; they are not among the reads."""
    return f"; {summary.empty_reads} more returned no byte" if summary.empty_reads else ""


def _about_reads(summary: Summary) -> list[tuple[str, str]]:
    """Return the rows on reads that there are: none of a job that reads nothing."""
    rows: list[tuple[str, str]] = []
    if summary.reads:
        low, median, high = (format_bytes(round(each)) for each in summary.read_size_percentiles)
        rows += [
            ("each byte", f"read {summary.reuse:.2f} times ({format_amount(summary.bytes_unique)} "
                          f"without repetition)"),
            ("size of a read", f"median {median}; nine in ten {low} to {high}"),
        ]  # fmt: skip
    if summary.sequential_fraction is not None and summary.forward_fraction is not None:
        rows.append(
            ("order", f"{format_share(summary.sequential_fraction)} of reads begin where the one "
                      f"before ended, {format_share(summary.forward_fraction)} there or further on")
        )  # fmt: skip
    if summary.between_ms_percentiles:
        low, median, high = (format_seconds(each / 1e3) for each in summary.between_ms_percentiles)
        rows.append(("work between reads", f"median {median}; nine in ten {low} to {high}"))
    return rows


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _unseen(unseen: Unseen | None) -> str:
    if unseen is None:
        return "unknown: the kernel's counts were not read"
    return (
        f"{format_amount(unseen.read_bytes)} read, {format_amount(unseen.written_bytes)} written, "
        f"of {format_amount(unseen.kernel_read_bytes)} and "
        f"{format_amount(unseen.kernel_written_bytes)} that the kernel counted"
    )
