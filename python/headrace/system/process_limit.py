"""Base layer: errors of a limit of processes and threads.

`ulimit -u` counts all processes and threads of a user, `pids.max` those of a control group, as of a
container, a service or a batch job.
"""

from __future__ import annotations

import errno

REMEDY = "raise the limit (ulimit -u, or pids.max of the control group)"

_SAID = (
    "can't start new thread",  # Python
    "Failed to launch worker thread",  # Arrow
    "failed to spawn thread",  # Rust
)
"""Words of errors that have no number."""


def is_process_limit(error: BaseException) -> bool:
    """Return whether an error says that no further process or thread can be started."""
    if isinstance(error, OSError):
        # Of fork. Who waits for a lock handles it itself; a stream that must not block, and is
        # full, says how much was written.
        return error.errno == errno.EAGAIN and not hasattr(error, "characters_written")
    return any(words in str(error) for words in _SAID)
