"""The base of the fields of probes that a study names: apart, because a node needs no models."""

from __future__ import annotations

from headrace.site import Section


class ProbeOptions(Section):
    """Fields of a `[probe.NAME]` of a study."""
