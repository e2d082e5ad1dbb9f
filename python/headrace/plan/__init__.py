"""Step 2 of the pipeline: Study -> Plan. Deterministic: same study and seed, same plan.

`cells.py` enumerates the cells, `design.py` selects those to run, `order.py` orders them,
`repeats.py` decides when a cell has enough repeats (with the intervals of `intervals.py`),
`table.py` stores the plan as a file, and `estimate.py` estimates its cost.
"""

from __future__ import annotations

from headrace.plan.order import make_plan
from headrace.plan.trial import Plan, Trial

__all__ = ["Plan", "Trial", "make_plan"]
