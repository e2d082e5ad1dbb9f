"""Base layer: names one network interface, possibly of another network namespace."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interface:
    """A network interface, possibly in another namespace."""

    label: str
    """Name for the user: the connected node."""
    name: str
    namespace: str | None = None
    """None: the namespace of this process."""
    reversed: bool = False
    """True for a port of a switch: its transmitted bytes are those the node receives."""
