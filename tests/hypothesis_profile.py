"""Hypothesis for the folders of tests that use it: their `conftest.py` imports this first.

The other folders are spared its import, which takes a sixth of a second in each process.
"""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says how busy the machine is.
settings.register_profile("headrace", deadline=None)
settings.load_profile("headrace")
