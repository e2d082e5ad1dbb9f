"""The verdict on a recorded job, from its profile alone."""

from __future__ import annotations

from headrace.profiles.steps import Recording
from headrace.verdict.advising import advice_on
from headrace.verdict.running import observation_of
from headrace.verdict.words import ProgramVerdict, verdict_of


def verdict_of_profile(recording: Recording) -> ProgramVerdict:
    """Return what `headrace why` would say; no file of the job is read."""
    seen = observation_of(recording)
    return verdict_of(seen, *advice_on(seen, recording, measure=False))
