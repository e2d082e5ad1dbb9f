"""Step 6 of the way: Findings -> terminal, HTML, CSV, LaTeX, Parquet. Imports no engine: any stored record can be reported anywhere.

`write.py` writes files, `terminal.py` prints, `comparison.py` sets two result sets side by side; `wording.py` has the sentences
and `metrics.py` the names and units that all of them share.
"""

from headrace.report.write import FORMATS, write_report

__all__ = ["FORMATS", "write_report"]
