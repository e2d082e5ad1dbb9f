"""docs/accuracy.md from the results of all comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from results import Result, command_of
from rows import KINDS, Comparison, Kind, Row

PAGE = Path(__file__).parents[2] / "docs/accuracy.md"
WIDTH = 100

HEAD = """# Accuracy of the models

Repeat every comparison of a model with measurements, and write this page:

    make accuracy DATA=../measurements

`make accuracy ONLY="disks depth"` repeats some. `DATA` is a folder with measurements that are too
large for the repository; a comparison that misses them says which, and keeps its last result.
Everything here is written by this command from `benchmarks/accuracy/`: one file per comparison in
`comparisons/`, and its last result in `results/`. What the models compute is in
[models.md](models.md).

"""


def page(results: Sequence[Result], known: Mapping[str, Comparison]) -> str:
    """Return the text of docs/accuracy.md; `known` comparisons may not have been run yet."""
    parts = [HEAD, "Each number has a kind:\n\n"]
    parts += [f"- **{kind}**: {said}.\n" for kind, said in KINDS.items()]
    parts.append(
        "\nThe error of a null model, which knows less, is beside each: a model is worth what it "
        "errs less.\nErrors in the first table are medians of their size.\n\n## All comparisons\n\n"
    )
    parts.append(_overview(results))
    have = {result.name for result in results}
    parts += [_not_run(name, known[name]) for name in known if name not in have]
    parts += [_section(result) for result in results]
    return "".join(parts)


def _overview(results: Sequence[Result]) -> str:
    lines = [
        "| model | compared with | kind | numbers | error | largest | null | when | command |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        for kind in KINDS:
            for unit in sorted({row.error_unit for row in result.rows}):
                rows = [row for row in result.rows if (row.kind, row.error_unit) == (kind, unit)]
                if rows:
                    lines.append(_line(result, kind, unit, rows))
    return "\n".join(lines) + "\n"


def _not_run(name: str, comparison: Comparison) -> str:
    """Return the line of a comparison without a result, and nothing else of it."""
    blank = " | ".join(["–"] * 5)
    command = command_of(name, comparison)
    return f"| {comparison.model} | {comparison.title} | {blank} | not yet | `{command}` |\n"


def _line(result: Result, kind: Kind, unit: str, rows: Sequence[Row]) -> str:
    errors = [abs(row.error) for row in rows]
    nulls = [abs(row.null_error) for row in rows if row.null_error is not None]
    cells = (
        result.model,
        f"[{result.title}](#{_anchor(result.title)})",
        kind,
        str(len(rows)),
        _size(median(errors), unit),
        _size(max(errors), unit),
        _size(median(nulls), unit) if nulls else "–",
        result.date,
        f"`{result.command}`",
    )
    return f"| {' | '.join(cells)} |"


def _section(result: Result) -> str:
    parts = [f"\n## {result.title}\n\n"]
    parts += [_wrapped(f"**{name}**: {text}") for name, text in (
        ("Model", f"{result.model}."),
        ("Measured", result.source),
        ("Null model", result.null),
        ("Run", f"{result.date}, Headrace {result.version}, {result.machine}: `{result.command}`."),
    )]  # fmt: skip
    parts.append(_rows(result.rows))
    if result.notes:
        parts.append("\n" + "".join(_wrapped(f"- {note}", "  ") for note in result.notes))
    return "".join(parts)


def _rows(rows: Sequence[Row]) -> str:
    noted = any(row.note for row in rows)
    lines = [
        "| | measured | model | error | null model | kind |" + (" |" if noted else ""),
        "|---|---|---|---|---|---|" + ("---|" if noted else ""),
    ]
    for row in rows:
        null = "–" if row.null_error is None else _signed(row.null_error, row.error_unit)
        cells = [
            row.compared,
            f"{_number(row.measured)} {row.unit}".strip(),
            f"{_number(row.predicted)} {row.unit}".strip(),
            _signed(row.error, row.error_unit),
            null,
            row.kind,
            *([row.note] if noted else []),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """Return four digits, without a power of ten: 16 225."""
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 1000 else f"{value:.4g}"


def _size(value: float, unit: str) -> str:
    """Return two digits, without a power of ten: 300 %."""
    digits = f"{value * 100 if unit == '%' else value:.2g}"
    return f"{float(digits):g} {unit}"


def _signed(value: float, unit: str) -> str:
    return f"{value * 100:+.1f} %" if unit == "%" else f"{value:.3g} {unit}"


def _anchor(title: str) -> str:
    """Return the anchor that Markdown makes of a heading."""
    kept = (each for each in title.lower() if each.isalnum() or each in " -_")
    return "".join(kept).replace(" ", "-")


def _wrapped(text: str, indent: str = "") -> str:
    """Return a paragraph or list item in lines of at most 100 columns."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = indent + word
        else:
            line = f"{line} {word}" if line else word
    end = "\n" if text.startswith("- ") else "\n\n"
    return "\n".join([*lines, line]) + end
