"""Pipeline step 6: Findings -> terminal, HTML, CSV, LaTeX, Parquet. Imports no engine, so any
stored record can be reported on any machine.

`write.py` writes files, `terminal.py` prints, `comparison.py` shows two result sets side by side.
All of them share the sentences of `wording.py` and the metric names and units of
`headrace.metrics`.
"""

from headrace.report.write import FORMATS, write_report

__all__ = ["FORMATS", "write_report"]
