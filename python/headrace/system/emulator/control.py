"""Requests to an emulated drive's process over its control socket: one JSON line each way."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.system import unix_sockets


class NoAnswerError(HeadraceError):
    """The process of an emulated drive is gone, or does not answer."""


def ask(control: Path, what: str, *, timeout_s: float = 10.0, **arguments: Any) -> Any:
    """Send a request and return the answer.

    Raises NoAnswerError, or HeadraceError with the reason when the emulator refuses.
    """
    line = json.dumps({"ask": what, **arguments}).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            unix_sockets.connect(connection, control)
            connection.sendall(line)
            with connection.makefile("rb") as answers:
                answer = answers.readline()
    except OSError as error:
        raise NoAnswerError(
            f"the emulated drive of {control.parent} does not answer: {error}"
        ) from error
    if not answer:
        raise NoAnswerError(f"the emulated drive of {control.parent} has ended")
    said = json.loads(answer)
    if "error" in said:
        raise HeadraceError(f"the emulated drive refuses: {said['error']}")
    return said["ok"]
