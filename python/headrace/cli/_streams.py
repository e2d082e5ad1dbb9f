"""Standard streams as commands need them, whatever the caller left of them."""

from __future__ import annotations

import io
import os
import sys


def secure_streams() -> None:
    """Open what is closed of descriptors 0 to 2, and make text printable in any encoding.

    A closed descriptor would be given to the next file that is opened, and a program that is
    started later would read or write that file as its standard stream.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor is used, and those below it are open by now.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            stream = open(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def silence_output() -> None:
    """Let what is still buffered for standard output go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.__stdout__.fileno() if sys.__stdout__ else 1)
    os.close(nowhere)
