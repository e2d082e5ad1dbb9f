"""How the results of a trial were obtained (law 6)."""

from __future__ import annotations

from typing import Literal

Provenance = Literal["measured", "emulated", "simulated"]
"""By real jobs on real storage, by real jobs on an emulated drive, or in virtual time."""
