r"""The LaTeX report: booktabs tables and the figures of `plots.py`, ready to be taken into a paper.

`report.tex` compiles by itself; its tables and figures can be copied out, they need the packages booktabs and graphicx alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.analysis.findings import Estimate, Findings
from headrace.report import tables, wording
from headrace.report.metrics import Metric, interval_text, metric, value_text
from headrace.report.page_data import mark_of, provenance_of_metric, scaled_metrics
from headrace.report.plots import write_plots
from headrace.report.select import shown_curves

FIGURES = "report-figures"
ROWS_A_TABLE = 30
"""Longer tables are cut: a float cannot go over a page."""

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\u202f": r"\,",
    "−": "$-$",
    "–": "--",
    "≥": r"$\geq$",
    "×": r"$\times$",
    "µ": r"\textmu{}",
    "’": "'",
    "“": "``",
    "”": "''",
}


def escape(text: str) -> str:
    """Text as LaTeX prints it literally."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def tabular(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], caption: str, label: str
) -> str:
    """A table of booktabs. `columns` are (heading, alignment); headings, cells and caption are plain text."""
    alignment = "".join(align for _, align in columns)
    lines = [
        r"\begin{table}[htbp]",
        r"\centering\small",
        rf"\caption{{{escape(caption)}}}\label{{{label}}}",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        " & ".join(escape(heading) for heading, _ in columns) + r" \\",
        r"\midrule",
        *(" & ".join(escape(cell) for cell in row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _cell(estimate: Estimate | None, shown: Metric, provenance: str) -> str:
    if estimate is None:
        return "–"
    interval = interval_text(estimate, shown)
    mark = ", ".join(wording.PROVENANCE_MARKS.get(word, word) for word in wording.provenances(provenance))
    return f"{value_text(estimate, shown)}{f' [{interval}]' if interval else ''} ({mark})"


def _curve_table(findings: Findings) -> str:
    rows: list[list[str]] = []
    curves = shown_curves(findings).curves
    fed = any(curve.slots_fed is not None for curve in curves)
    for index, curve in enumerate(curves):
        main = wording.main_metric(findings, curve.workload)
        best = wording.peak(curve, main)
        scaled = metric(main, best.metrics[main].value) if main and best else None
        row = tables.summary_row(index, curve, scaled)
        peak = row["peak"]
        rate = "–"
        if best is not None and main is not None and scaled is not None and peak is not None:
            rate = f"{_cell(best.metrics[main], scaled, peak.provenance)} {scaled.unit}".strip()
        slots = [row["fed"] or "–"] if fed else []
        rows.append([curve.label, *slots, rate, str(row["peak_slots"] or "–"), row["why"] or "–"])
    columns = [("Storage", "l"), ("Best rate", "r"), ("at slots", "r"), ("Beyond", "l")]
    if fed:
        columns.insert(1, ("Slots fed", "r"))
    caption = "Slots fed and best rate of each storage." if fed else "Best rate of each storage."
    return tabular(columns, rows, caption, "tab:slots")


def _point_table(findings: Findings) -> str:
    curves = shown_curves(findings).curves
    metrics = scaled_metrics(curves, findings)
    mains = [wording.main_metric(findings, curve.workload) for curve in curves]
    names = [name for name in dict.fromkeys([*mains, "efficiency", "amplification"]) if name in metrics]
    rows: list[list[str]] = []
    for curve in curves:
        for point in curve.points:
            cells = [
                _cell(
                    point.metrics.get(name),
                    metrics[name],
                    mark_of(point.metrics[name], point) if name in point.metrics else "",
                )
                for name in names
            ]
            rows.append([curve.label, str(point.slots), *cells, wording.limit_text(point)])
    columns = [
        ("Storage", "l"),
        ("Slots", "r"),
        *((metrics[name].heading, "r") for name in names),
        ("Limit", "l"),
    ]
    pieces = [rows[start : start + ROWS_A_TABLE] for start in range(0, len(rows), ROWS_A_TABLE)]
    captions = ["Every point, with what held jobs back.", *["Every point, continued."] * len(pieces)]
    labels = ["tab:points", *(f"tab:points-{number}" for number in range(2, len(pieces) + 1))]
    return "\n".join(
        tabular(columns, piece, *about) for piece, *about in zip(pieces, captions, labels, strict=False)
    )


def _effect_table(findings: Findings) -> str:
    rows: list[list[str]] = []
    for workload, name, effects in tables.effect_groups(findings):
        for effect in effects:
            row = tables.effect_row(effect, provenance_of_metric(findings, name))
            cost = _cell(effect.cost_of_wrong, tables.COST, row["cost"].provenance)
            rows.append(
                [workload, metric(name).title, row["factor"], row["best"], row["worst"], cost, row["p"]]
            )
    columns = [
        ("Workload", "l"), ("Metric", "l"), ("Factor", "l"), ("Best", "l"), ("Worst", "l"), ("Cost (%)", "r"), ("p", "r"),
    ]  # fmt: skip
    return tabular(columns, rows, "What the wrong level of each factor costs.", "tab:effects")


def _left_out_table(findings: Findings) -> str:
    rows = [[row["trial"], row["status"], row["reasons"]] for row in tables.left_out(findings)["rows"]]
    columns = [("Trial", "l"), ("Status", "l"), ("Why", "p{8cm}")]
    return tabular(columns, rows, "Trials left out of every finding.", "tab:left-out")


def _figure(name: str, caption: str) -> str:
    return (
        "\\begin{figure}[htbp]\n\\centering\n"
        f"\\includegraphics[width=\\linewidth,height=0.75\\textheight,keepaspectratio]{{{FIGURES}/{name}.pdf}}\n"
        f"\\caption{{{escape(caption)}}}\\label{{fig:{name}}}\n\\end{{figure}}\n"
    )


def latex_text(findings: Findings, captions: dict[str, str]) -> str:
    """The whole document."""
    marks = ", ".join(f"{wording.PROVENANCE_MARKS.get(word, word)}: {word}" for word in findings.provenance)
    parts = [
        "% Tables need booktabs, figures graphicx; both can be copied into a paper.",
        r"\documentclass{article}",
        r"\usepackage[utf8]{inputenc}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage{textcomp}",
        r"\usepackage{booktabs}",
        r"\usepackage{graphicx}",
        r"\usepackage[margin=2cm,landscape]{geometry}",
        r"\begin{document}",
        rf"\section*{{{escape(findings.title)}}}",
        *(escape(answer.sentence) + "\n" for answer in wording.answers(findings)),
        *(escape(sentence) + "\n" for sentence in wording.choice_sentences(findings)),
        escape(wording.trials_sentence(findings)) + "\n",
        escape(f"Intervals are {wording.confidence_text(findings)} confidence intervals. Marks: {marks}.")
        + "\n",
        _curve_table(findings),
        *(_figure(name, caption) for name, caption in captions.items()),
        _point_table(findings),
    ]
    if findings.effects:
        parts.append(_effect_table(findings))
    if findings.left_out:
        parts.append(_left_out_table(findings))
    parts.append(r"\end{document}")
    return "\n".join(parts) + "\n"


def write_latex(findings: Findings, file: Path) -> list[Path]:
    """Writes the document and its figures beside it; returns what was written."""
    folder = file.parent / FIGURES
    captions = write_plots(findings, folder)
    file.write_text(latex_text(findings, captions), encoding="utf-8")
    return [file, *sorted(folder.iterdir())]
