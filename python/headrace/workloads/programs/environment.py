"""The user's environment, for programs of theirs."""

from __future__ import annotations

import os

from headrace.jobs import SET_FOR_JOBS


def users_environment() -> dict[str, str]:
    """Return the user's environment, without the variables that Headrace set for its own code."""
    ours = {SET_FOR_JOBS, *os.environ.get(SET_FOR_JOBS, "").split(",")}
    return {name: value for name, value in os.environ.items() if name not in ours}
