"""Ctrl-C that Python's import of a C extension loses, or replaces by an error of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, threading
# ROOT with threads, in a test before, makes this process and its children ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
import headrace.cli
from headrace.system.stopping import stopping_on_signals

def interrupted_import():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        pass

def fails():
    interrupted_import()
    raise AttributeError("partially initialized module")

def goes_on():
    interrupted_import()
    stop = threading.Event()
    with stopping_on_signals(stop):
        print("stopped" if stop.is_set() else "goes on")

headrace.cli.make_app = lambda *_, **__: lambda **_: COMMAND()
headrace.cli.main()
"""


@pytest.mark.parametrize(
    ("command", "code", "said"), [("fails", 130, "headrace: stopped\n"), ("goes_on", 0, "stopped")]
)
def test_a_lost_interrupt_stops_the_command(command: str, code: int, said: str) -> None:
    program = PROGRAM.replace("COMMAND", command)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, "Traceback" in ended.stderr) == (code, False), ended.stderr
    assert said in ended.stdout + ended.stderr
