"""Step 5 of the way: Records -> Findings. Pure: the same records and options, the same findings.

`metrics.py` makes numbers of a trial, `points.py` of a cell's trials, `limit.py` says what held them back, `curves.py` reads them
against slots, `effects.py` factor by factor, `find.py` puts it together, `compare.py` sets two result sets side by side.
"""
