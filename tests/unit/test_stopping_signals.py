"""Ctrl-C at any instant: in an import, which can lose it or fail otherwise, and at the end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

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


AT_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sent = []
def interrupt(event, arguments):
    if event == "import" and arguments[0] == WHEN and not sent:
        sent.append(WHEN)
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(interrupt)
from headrace.cli import main
main()
"""


EARLY = ("headrace.system.stopping", "threading", "atexit")
"""What `main` imports before it handles signals."""


@pytest.mark.parametrize("imported", [*EARLY, "headrace.errors", "rich.console", "typer"])
def test_a_command_stops_without_a_traceback_while_it_imports(imported: str) -> None:
    program = AT_IMPORT.replace("WHEN", repr(imported))
    command = [sys.executable, "-c", program, "--version"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "headrace: stopped\n")


IN_TEXT = """
import builtins, os, runpy, signal, sys
real = builtins.exec
def interrupted(source, *names):
    if isinstance(source, str) and signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        builtins.exec = real
        source = f"import os; os.kill(os.getpid(), {signal.SIGTERM:d})\\n" + source
    real(source, *names)
builtins.exec = interrupted
sys.argv[1:] = ["validate", "study.toml"]
runpy.run_module("headrace", run_name="__main__", alter_sys=True)
"""


def test_a_stop_in_text_that_is_executed_has_the_same_exit_code(tmp_path: Path) -> None:
    """As of a dataclass while it is imported; `python -m` looks for interrupts of its own."""
    (tmp_path / "in_text.py").write_text(IN_TEXT)
    command = [sys.executable, "-m", "in_text"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGTERM, "headrace: stopped\n")


def test_nothing_is_imported_before_interrupts_are_heard() -> None:
    program = (
        "import sys; before = {*sys.modules}; import headrace.cli; print(*{*sys.modules} - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert {*done.stdout.split()} <= {"headrace", "headrace.cli", "__future__", "types"}


def test_an_interrupt_at_the_very_end_prints_no_traceback() -> None:
    program = (
        "import atexit, os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "sys.argv[1:] = ['--version']\n"
        "from headrace.cli import main\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (-2, "")
    assert ended.stdout.startswith("headrace ")
