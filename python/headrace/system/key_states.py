"""Base layer: what a process says of the keys and certificates that it would use.

Apart from `cluster_keys`, which imports the library that reads them: few nodes are asked.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KeyState:
    """A file of keys or certificates, as this process sees it."""

    file: str
    secret: bool
    """Whether it holds a private key."""
    lacks: str = ""
    """Why it cannot be used; empty when it can."""
    open_to_others: bool = False
    """Whether other users can read or change it."""
    begins_in_s: float = 0.0
    """For a certificate: time until it is valid, by the clock here; negative when it is."""
    ends_in_s: float | None = None
    """For a certificate: time until it is no longer valid."""
