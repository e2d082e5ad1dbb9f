"""A job profile in outline: what can be seen of a running job from outside, without its calls.

`JobOutline` (`observer.py`) takes the looks of a watch and writes the profile at its end
(`writing.py`). Every figure has bounds (`figures.py`): counters of the kernel say how much the job
read, but not from what. Block events, as root, show the order of reads (`block_order.py`).
"""

from headrace.outline.observer import JobOutline

__all__ = ["JobOutline"]
