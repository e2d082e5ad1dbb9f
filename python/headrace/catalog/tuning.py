"""Base layer: bounds of a file service's parameters, in studies and in the catalog's `servers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.units import MOST_THREADS

MOST_REQUEST_NS = 60 * 10**9
"""Longest time of a request: no service takes minutes, and trials of one that does would be
simulated without end."""
_MOST_WAIT_NS = 3600 * 10**9
_WAITS = ("timeout_ns", "client_start_ns", "client_start_cpu_ns")
"""Times that are not those of a request."""


def wrong_parameters(tuning: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the numbers that no service has, each as the parameter's name and the problem."""
    for name, value in tuning.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue  # the simulator checks their types
        least, most = _bounds(name)
        if not least <= value <= most:
            size = "small" if value < least else "large"
            yield name, f"is too {size} (given: {value}); allowed: {least} to {most}"


def _bounds(parameter: str) -> tuple[int, int]:
    """Return the bounds of a parameter by the unit in its name."""
    if parameter.endswith("_byte_ns"):
        return 0, 1_000_000  # 1 kB/s
    if parameter.endswith("_ns"):
        return 0, _MOST_WAIT_NS if parameter in _WAITS else MOST_REQUEST_NS
    if parameter.endswith("_request_bytes"):
        return 512, 1 << 40
    if parameter.endswith("_bytes"):
        return 0, 1 << 50
    return 0, MOST_THREADS  # threads, servers, copies
