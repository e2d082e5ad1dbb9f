"""Which simulations tell what would change a program: by what limits it."""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import HeadraceError
from headrace.profiles.steps import Recording
from headrace.verdict.advice import Advice
from headrace.verdict.faults import advise_faults
from headrace.verdict.limit import faults_limit, limit_of
from headrace.verdict.observation import STORAGE, Observation
from headrace.verdict.places import places_of
from headrace.verdict.requests import advise_requests
from headrace.verdict.simulating import advise

_SHOWN_AGAIN = 0.5
"""Of the waits for memory, reads of what had been read before must show so much."""


def advice_on(
    seen: Observation, recording: Recording | None, *, measure: bool = True
) -> tuple[Advice | None, str]:
    """Return advice, or why there is none; neither for a program that storage does not limit.

    `measure`: read the program's files for a second where its own reads do not tell enough.
    """
    limit = limit_of(seen)
    if limit.kind not in (*STORAGE, "memory", "connection") or recording is None:
        return None, ""
    # The recording has the wait of the first thread, of which the kernel may count too much: the
    # shares are of all threads, and what samples allow.
    recording = replace(recording, cpu_wait_ns=round(seen.seconds("wait-cpu") * 1e9))
    try:
        if limit.kind == "connection":
            return advise_requests(seen, recording), ""
        if limit.kind == "memory":
            return _advise_memory(seen, recording, measure=measure), ""
        if faults_limit(seen, limit):
            return advise_faults(seen, recording), ""
        if limit.access is None:
            return None, ""
        places = places_of(file.path for file in recording.files)
        return advise(recording, limit.access.place, places, measure=measure), ""
    except HeadraceError as error:
        return None, error.message


def _advise_memory(seen: Observation, recording: Recording, *, measure: bool) -> Advice:
    """Simulate the program in its control group's memory, and with more. Raises HeadraceError."""
    again = max(seen.accesses, key=lambda each: each.again_s, default=None)
    if again is None or again.again_s < _SHOWN_AGAIN * seen.seconds("memory"):
        raise HeadraceError("its reads do not show what it waits for")
    if not seen.memory_limit_bytes:
        raise HeadraceError("no control group limits its memory, so how much it had is not known")
    # What the group holds besides pages of files stays as it is.
    used = replace(recording, memory_bytes=max(0, seen.memory_limit_bytes - seen.cache_bytes))
    places = places_of(file.path for file in recording.files)
    return advise(used, again.place, places, measure=measure, memory_bytes=seen.memory_limit_bytes)
