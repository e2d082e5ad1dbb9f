r"""The LaTeX report: booktabs tables and the figures of `plots.py`, ready for a paper.

`report.tex` compiles by itself; its tables and figures can be copied and need only the packages
booktabs and graphicx.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.analysis.findings import Estimate, Findings
from headrace.analysis.ranking import peak
from headrace.metrics.shown import ShownMetric, show
from headrace.report import tables, wording
from headrace.report.answers import answers, leading, unanswered_sentence
from headrace.report.choices import choice_sentences
from headrace.report.numbers import interval_text, value_text
from headrace.report.own_files import FIGURE_KINDS, FIGURES
from headrace.report.page_data import mark_of, provenance_of_metric, scaled_metrics
from headrace.report.plots import write_plots
from headrace.report.select import shown_curves
from headrace.whole_file import whole

ROWS_A_TABLE = 30
"""Longer tables are truncated: a float cannot span pages."""

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
    """Return text that LaTeX prints literally."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def tabular(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], caption: str, label: str
) -> str:
    """Return a booktabs table.

    `columns` are (heading, alignment); headings, cells and caption are plain text.
    """
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


def _cell(estimate: Estimate | None, shown: ShownMetric, provenance: str) -> str:
    if estimate is None:
        return "–"
    interval = interval_text(estimate, shown)
    mark = ", ".join(
        wording.PROVENANCE_MARKS.get(word, word) for word in wording.provenances(provenance)
    )
    return f"{value_text(estimate, shown)}{f' [{interval}]' if interval else ''} ({mark})"


def _curve_table(findings: Findings) -> str:
    rows: list[list[str]] = []
    curves = shown_curves(findings).curves
    fed = any(curve.slots_fed is not None for curve in curves)
    for index, curve in enumerate(curves):
        main = wording.main_metric(findings, curve.workload)
        best = peak(curve, main)
        scaled = show(main, best.metrics[main].value) if main and best else None
        row = tables.summary_row(index, curve, scaled, findings.curves)
        reached = row["peak"]
        rate = "–"
        if best is not None and main is not None and scaled is not None and reached is not None:
            rate = f"{_cell(best.metrics[main], scaled, reached.provenance)} {scaled.unit}".strip()
        interval = f" [{row['fed_interval']}]" if row["fed_interval"] else ""
        slots = [f"{row['fed']}{interval}" if row["fed"] else "–"] if fed else []
        rows.append(
            [
                row["rank"],
                curve.label,
                *slots,
                rate,
                str(row["peak_load"] or "–"),
                row["why"] or "–",
            ]
        )
    noun = "clients" if any(curve.axis == "clients" for curve in curves) else "slots"
    best_of = wording.best_heading(wording.main_metric(findings, c.workload) for c in curves)
    columns = [
        ("Rank", "r"),
        ("Storage", "l"),
        (best_of.capitalize(), "r"),
        (f"at {noun}", "r"),
        ("Beyond", "l"),
    ]
    if fed:
        columns.insert(2, (f"{noun.capitalize()} fed", "r"))
    caption = f"{f'Slots fed and {best_of}' if fed else best_of.capitalize()} of each storage."
    return tabular(columns, rows, caption, "tab:slots")


def _point_table(findings: Findings) -> str:
    curves = shown_curves(findings).curves
    metrics = scaled_metrics(curves, findings)
    mains = [wording.main_metric(findings, curve.workload) for curve in curves]
    names = [
        name for name in dict.fromkeys([*mains, "efficiency", "amplification"]) if name in metrics
    ]
    rows: list[list[str]] = []
    for curve in curves:
        for point in sorted((*curve.points, *curve.distrusted), key=lambda point: point.load):
            cells = [
                _cell(
                    point.metrics.get(name),
                    metrics[name],
                    mark_of(point.metrics[name], point) if name in point.metrics else "",
                )
                for name in names
            ]
            limit = wording.limit_text(point)
            if point.reasons:
                # Points of invalid trials are no results: they are in brackets, with the reason.
                cells = [f"({cell})" if cell != "–" else cell for cell in cells]
                limit = f"invalid: {'; '.join(point.reasons)}"
            rows.append([curve.label, str(point.load), *cells, limit])
    noun = "Clients" if any(curve.axis == "clients" for curve in curves) else "Slots"
    columns = [
        ("Storage", "l"),
        (noun, "r"),
        *((metrics[name].heading, "r") for name in names),
        ("Limit", "p{6cm}"),
    ]
    pieces = [rows[start : start + ROWS_A_TABLE] for start in range(0, len(rows), ROWS_A_TABLE)]
    captions = [
        "Every point, with what held jobs back.",
        *["Every point, continued."] * len(pieces),
    ]
    labels = ["tab:points", *(f"tab:points-{number}" for number in range(2, len(pieces) + 1))]
    return "\n".join(
        tabular(columns, piece, *about)
        for piece, *about in zip(pieces, captions, labels, strict=False)
    )


def _effect_table(findings: Findings) -> str:
    rows: list[list[str]] = []
    for workload, name, effects in tables.effect_groups(findings):
        for effect in effects:
            row = tables.effect_row(
                effect, provenance_of_metric(findings, name), wording.LevelNames.of(findings)
            )
            cost = _cell(effect.cost_of_wrong, tables.COST, row["cost"].provenance)
            title = show(name).title
            verdict = row["verdict"].partition(";")[0]
            rows.append(
                [
                    workload,
                    title,
                    row["factor"],
                    row["best"],
                    row["worst"],
                    verdict or cost,
                    row["p"],
                ]
            )
    columns = [
        ("Workload", "l"),
        ("Metric", "l"),
        ("Factor", "l"),
        ("Best", "l"),
        ("Worst", "l"),
        ("Cost (%)", "r"),
        ("p", "r"),
    ]
    return tabular(columns, rows, "What the wrong level of each factor costs.", "tab:effects")


def _left_out_table(findings: Findings) -> str:
    rows = [
        [row["trial"], row["status"], row["reasons"]] for row in tables.left_out(findings)["rows"]
    ]
    columns = [("Trial", "l"), ("Status", "l"), ("Why", "p{8cm}")]
    return tabular(columns, rows, "Trials left out of every finding.", "tab:left-out")


def _figure(name: str, caption: str) -> str:
    return (
        "\\begin{figure}[htbp]\n\\centering\n"
        "\\includegraphics[width=\\linewidth,height=0.75\\textheight,keepaspectratio]"
        f"{{{FIGURES}/{name}.pdf}}\n"
        f"\\caption{{{escape(caption)}}}\\label{{fig:{name}}}\n\\end{{figure}}\n"
    )


def latex_text(findings: Findings, captions: dict[str, str]) -> str:
    """Return the whole document."""
    marks = ", ".join(
        f"{wording.PROVENANCE_MARKS.get(word, word)}: {word}" for word in findings.provenance
    )
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
        *(escape(answer.sentence) + "\n" for answer in leading(answers(findings))),
        *(escape(sentence) + "\n" for sentence in choice_sentences(findings)),
        *(escape(unanswered_sentence(each)) + "\n" for each in findings.unanswered),
        escape(wording.trials_sentence(findings)) + "\n",
        escape(
            f"Intervals are {wording.confidence_text(findings)} confidence intervals. Marks: "
            f"{marks}."
        )
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
    """Write the document and its figures in the same folder; return the files written."""
    folder = file.parent / FIGURES
    captions = write_plots(findings, folder)
    text = latex_text(findings, captions)
    whole(file, lambda part: part.write_text(text, encoding="utf-8"))
    return [file, *sorted(folder / f"{name}.{kind}" for name in captions for kind in FIGURE_KINDS)]
