"""The verdict as a page: one file, without scripts or requests."""

from __future__ import annotations

import shlex
from pathlib import Path

from headrace.report.html import environment
from headrace.units import format_amount, format_bytes, format_seconds
from headrace.verdict.advice import Advice
from headrace.verdict.observation import ShareKind
from headrace.verdict.words import ProgramVerdict, exit_words, percent, share_words
from headrace.whole_file import write_whole

_COLOURS: dict[ShareKind, str] = {
    "cpu": "on_cpu", "wait-cpu": "wait_cpu", "block": "wait_block", "memory": "wait_block",
    "network": "wait_network", "connection": "wait_network",
}  # fmt: skip
"""The parts of the report's ledger."""
_WRITTEN_LEAST = 0.08
"""A narrower part of the bar has no text."""


def write_page(verdict: ProgramVerdict, file: Path) -> Path:
    """Write the page, whole or not at all. Raises HeadraceError when it cannot be written."""
    text = render(verdict)
    hint = "--page names another file"
    # An argument of the program that is not UTF-8 has a `?` for each such byte.
    return write_whole(file, lambda to: to.write_text(text, "utf-8", "replace"), hint)


def render(verdict: ProgramVerdict) -> str:
    """Return the page as text."""
    seen, advice = verdict.observation, verdict.advice
    samples = f"{seen.samples} sample{'' if seen.samples == 1 else 's'}"
    fractions = [(share, share.seconds / seen.wall_s) for share in seen.shares if seen.wall_s > 0]
    return (
        environment()
        .get_template("why.html.j2")
        .render(
            command=shlex.join(seen.command),
            wall=format_seconds(seen.wall_s),
            ending=exit_words(seen.exit_code),
            lines=[" ".join(each.split()) for each in verdict.sentences],
            parts=[
                {
                    "key": _COLOURS.get(share.kind, "other"),
                    "width": f"{100 * fraction:.2f}",
                    "title": share_words(share),
                    "percent": percent(fraction),
                    "text": percent(fraction) if fraction >= _WRITTEN_LEAST else "",
                }
                for share, fraction in fractions
            ],
            shares=[
                {
                    "what": share_words(share),
                    "time": format_seconds(share.seconds),
                    "share": percent(fraction),
                }
                for share, fraction in fractions
            ],
            accesses=[
                {
                    "name": f"{each.place.name or 'not known'} {each.place.filesystem}",
                    "reads": f"{each.reads:,}",
                    "read": format_amount(each.bytes_read),
                    "size": format_bytes(round(each.read_bytes_median)),
                    "random": percent(each.random_fraction),
                    "waits": f"{each.slow_reads:,}",
                    "wait": format_seconds(each.slow_read_s),
                    "written": format_amount(each.bytes_written),
                }
                for each in seen.accesses
            ],
            changes=_changes(advice),
            agreement="" if advice is None else _agreement(advice),
            sources=f"Times from {seen.sources.replace('+', ', ')}; {samples}.",
            lacks=seen.lacks,
        )
    )


def _changes(advice: Advice | None) -> list[dict[str, str]]:
    return [
        {
            "name": change.name,
            "time": format_seconds(change.seconds),
            "saves": f"{percent(advice.saved(change))} ± {100 * advice.uncertainty(change):.0f}",
        }
        for change in (advice.changes if advice is not None else ())
        if advice is not None
    ]


def _agreement(advice: Advice) -> str:
    return (
        f"The present storage: {format_seconds(advice.present_s)} simulated, "
        f"{format_seconds(advice.measured_s)} measured ({100 * advice.error:+.0f} %)."
    )
