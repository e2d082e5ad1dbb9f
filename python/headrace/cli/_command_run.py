"""What a command runs in: its streams, its environment, and the exit code of each way to end."""

from __future__ import annotations

import errno
import gc
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console

from headrace.cli._console import FULL, complain, err
from headrace.cli._lean_help import import_help
from headrace.cli._streams import secure_streams, silence_output
from headrace.errors import MOUNT_AGAIN, MOUNT_GONE, ExitCode, HeadraceError
from headrace.system.address_space import of_import, respect_limit, too_little
from headrace.system.ending import end_without_search
from headrace.system.own_variables import BLAS, one_thread
from headrace.system.process_limit import REMEDY, is_process_limit
from headrace.system.stopping import exit_code as _stopped
from headrace.system.stopping import interrupted

if TYPE_CHECKING:
    import typer


def run_command(make_app: Callable[..., typer.Typer]) -> None:
    """Run the command that the command line names, and end with its exit code.

    A user error prints one message, without a traceback.
    """
    # What a command imports stays: to look through it for garbage again and again takes a tenth of
    # a report's time.
    gc.set_threshold(50_000, 20, 100)
    os.environ.update(one_thread(BLAS))
    respect_limit()
    end_without_search()
    secure_streams()
    try:
        _run_named(make_app)
    except HeadraceError as error:
        complain(error)
        sys.exit(_stopped() if error.exit_code == ExitCode.INTERRUPTED else int(error.exit_code))
    except OSError as error:
        sys.exit(int(_ended_by(error)))
    except MemoryError:
        _end_without_memory("this command")
    except ImportError as error:
        if not of_import(error):
            raise
        _end_without_memory(f"{Path(error.path or 'a library').name} cannot be loaded")
    except Exception as error:
        if is_process_limit(error):
            _end_without_processes()
        if not interrupted():
            raise
        err.print("headrace: stopped")
        sys.exit(_stopped())
    except SystemExit as end:
        # Typer exits with 1 (a defect) when the program that reads the output (head, less) has
        # ended.
        if isinstance(end.__context__, BrokenPipeError) and (_reader_gone() or _by_rich(end)):
            sys.exit(_refused(end.__context__))
        if end.code == ExitCode.INTERRUPTED:
            if end.__context__ and isinstance(end.__context__.__cause__, KeyboardInterrupt):
                err.print("headrace: stopped")
            sys.exit(_stopped())
        raise
    except BaseException as error:  # a panic of Rust
        if is_process_limit(error):
            _end_without_processes()
        raise


def _end_without_processes() -> NoReturn:
    complain(HeadraceError("no more processes or threads can be started", hint=REMEDY))
    sys.exit(int(ExitCode.MISSING))


def _end_without_memory(what: str) -> NoReturn:
    error = too_little(what)
    try:
        complain(error)
    except (MemoryError, ImportError, OSError):  # a message in colours imports more
        os.write(2, f"headrace: {error.message}\n  {error.hint or ''}\n".encode())
    sys.exit(int(error.exit_code))


def _run_named(make_app: Callable[..., typer.Typer]) -> None:
    """Make the application and run it: a command's start needs no other command's modules."""
    words = sys.argv[1:]
    # A shell that completes a line gives its words in the environment.
    completing = any(name.endswith("HEADRACE_COMPLETE") for name in os.environ)
    if not {"-h", "--help"}.isdisjoint(words) or not words:
        import_help()
    listed = not completing and all(word.startswith("-") for word in words)
    make_app(words[0] if words else None, listed=listed)(standalone_mode=True)


def _ended_by(error: OSError) -> ExitCode:
    """Print what the user can do about an error of the system; raise it again if nothing."""
    if error.errno == errno.ENAMETOOLONG:
        # Of a file or folder that the user named: Headrace's own names are short.
        name = str(error.filename or "a file")
        shown = name if len(name) <= 60 else f"{name[:40]}...{name[-17:]}"
        complain(HeadraceError(f"{shown}: the name is too long"))
        return ExitCode.BAD_INPUT
    if error.errno == errno.ENOENT and _without_folder():
        complain(HeadraceError("the current directory has been removed; change to another one"))
        return ExitCode.BAD_INPUT
    if error.errno == errno.ENOENT and "temporary directory" in str(error.strerror):
        # Python's tempfile has tried to write to each folder for temporary files.
        hint = "free some space in /tmp, or set TMPDIR to a folder that you can write to"
        complain(HeadraceError("there is no space for temporary files", hint=hint))
        return ExitCode.RUN_FAILED
    if error.errno in MOUNT_GONE and error.filename:
        problem = f"{os.fsdecode(error.filename)}: {error.strerror}"
        complain(HeadraceError(problem, hint=MOUNT_AGAIN))
        return ExitCode.RUN_FAILED
    if is_process_limit(error):
        _end_without_processes()
    if "--install-completion" in sys.argv[1:2]:
        where = f" ({error.filename})" if error.filename else ""
        problem = f"completion cannot be installed: {error.strerror}{where}"
        complain(HeadraceError(problem, hint="headrace --show-completion prints it"))
        return ExitCode.MISSING
    if error.errno not in FULL:
        raise error
    silence_output()
    where = f" ({error.filename})" if error.filename else ""
    complain(HeadraceError(f"output cannot be written: {error.strerror}{where}"))
    # Of a wrong command line: that it is wrong could not be said.
    return ExitCode(_refused(error) or ExitCode.RUN_FAILED)


def _without_folder() -> bool:
    """Return whether the current directory has been removed, or cannot be reached."""
    try:
        Path.cwd()
    except OSError:
        return True
    return False


def _refused(error: BaseException | None) -> int:
    """Return the exit code of the wrong command line that was being told of when the output could
    not be written; 0 without one."""
    while error is not None:
        code: object = getattr(error, "exit_code", None)  # of typer's errors
        if isinstance(code, int) and code:
            return int(code)
        error = error.__context__
    return int(ExitCode.OK)


def _reader_gone() -> bool:
    """Return whether standard output or error is a pipe whose reader has closed it."""
    poll = select.poll()
    for descriptor in (1, 2):
        poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _by_rich(end: SystemExit) -> bool:
    """Return whether a console of typer's help has ended the program as its reader was gone.

    Its descriptor leads elsewhere by then.
    """
    trace = end.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is Console.on_broken_pipe.__code__
