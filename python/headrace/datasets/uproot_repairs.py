"""What uproot refuses or reads wrongly in files of ROOT, repaired.

A basket of lists may store no offsets (ROOT's `kGenerateOffsetMap`); they follow from the counter
branch. uproot 5.7 takes the counts of the counter's basket of the same *number*. The two branches
need not have their baskets at the same events: it fails, or takes the counts of other events.
"""

from __future__ import annotations

from typing import Any

import uproot
import uproot.models.TBasket

from headrace.datasets.old_branches import read_old_branches
from headrace.datasets.old_compression import read_old_files

_BASKET: Any = uproot.models.TBasket.Model_TBasket


def _counts(basket: Any) -> Any:
    """Return the number of values of each event of a basket, by its own events."""
    branch, number = basket.parent, basket.basket_num
    if branch.count_branch is None:
        return None
    if number is None:  # of a basket in the tree's own metadata
        embedded = [id(each) for each in branch.embedded_baskets]
        number = int(branch.num_baskets) - len(embedded) + embedded.index(id(basket))
    first, stop = (int(each) for each in branch.basket_entry_start_stop(number))
    return branch.count_branch.array(entry_start=first, entry_stop=stop, library="np")


def repair_uproot() -> None:
    """Make uproot read such files, and files of old ROOT, from now on. Idempotent."""
    read_old_files()
    read_old_branches()
    _BASKET.counts = property(_counts)
