"""Pipeline step 5: Records -> Findings. Pure: equal records and options give equal findings.

`metrics.py` computes the metrics of each trial, `points.py` combines the trials of a cell,
`limit.py` names the bottleneck, `curves.py` orders points by load, `effects.py` estimates factor
effects, `find.py` assembles the findings, `compare.py` compares two result sets.
"""
