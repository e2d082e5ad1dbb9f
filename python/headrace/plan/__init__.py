"""Step 2 of the way: Study -> Plan. Pure: equal study and seed, equal plan, on any machine.

`cells.py` says which cells there are, `design.py` which of them are tried, `order.py` in which order, `repeats.py` when a
cell has been tried often enough (with the intervals of `intervals.py`), `table.py` keeps the plan as a file, and
`estimate.py` says what it will take.
"""

from __future__ import annotations

from headrace.plan.order import make_plan
from headrace.plan.trial import Plan, Trial

__all__ = ["Plan", "Trial", "make_plan"]
