"""Errors that say that no process can be started, told from others of the same number."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

import pytest

from headrace.system.process_limit import is_process_limit


def test_a_full_pipe_that_must_not_block_is_no_limit_of_processes() -> None:
    """Both have the number EAGAIN."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    stream = os.fdopen(writing, "wb")
    with pytest.raises(BlockingIOError) as full:
        while True:
            stream.write(bytes(1 << 16))
    assert not is_process_limit(full.value)
    with suppress(BrokenPipeError):
        os.close(reading)
        stream.close()
    assert is_process_limit(BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)))
