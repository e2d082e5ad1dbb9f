"""Files that a job has written: wait until they are on the device."""

from __future__ import annotations

import os
from pathlib import Path


def write_out(path: Path) -> None:
    """Wait until a file is on the device (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
