"""Shared by all commands: the consoles and the display of errors."""

from __future__ import annotations

import atexit
import errno
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from typing_extensions import override

from headrace.cli._streams import flush_errors, silence_errors
from headrace.errors import ExitCode, HeadraceError, StudyError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a write says when there is no space left for it, or no more is allowed."""


class _Terminal(Console):
    """A console that treats a closed terminal (writes give EIO) as a broken pipe."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Flush the output; call `on_broken_pipe` if its reader is gone."""
        try:
            super().__exit__(kind, error, trace)
        except OSError as failed:
            if failed.errno not in (errno.EIO, errno.EPIPE):
                raise
            self.on_broken_pipe()


class _Results(_Terminal):
    """Ends the program silently when the reader of its output (head, less) is gone."""

    def on_broken_pipe(self) -> None:
        """Exit with OK; rich would exit with 1, the code of a defect."""
        try:
            super().on_broken_pipe()
        except SystemExit:
            raise SystemExit(int(ExitCode.OK)) from None


class _Progress(_Terminal):
    """Prints nothing once its reader is gone: a run continues without progress display.

    The same holds while the disk is full that standard error is written to. When there is space
    again, the progress display returns there.
    """

    @override
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        except OSError as failed:
            if failed.errno not in FULL:
                raise
            atexit.register(flush_errors)

    def on_broken_pipe(self) -> None:
        """Stop printing."""
        self.quiet = True
        silence_errors()


# Without emoji: `results.json:a:` of a job named "a" is no picture.
out = _Results(highlight=False, soft_wrap=False, emoji=False)
"""Console for results."""
err = _Progress(stderr=True, highlight=False, soft_wrap=True, emoji=False)
"""Console for progress, warnings and errors, so that results can be piped."""


def complain(error: HeadraceError) -> None:
    """Print an error as one message, with its hint."""
    if isinstance(error, StudyError):
        for problem in error.problems:
            err.print(escape(str(problem)), style="red")
    else:
        err.print(f"[red]headrace: {escape(error.message)}[/red]")
    if error.hint:
        err.print(f"  {escape(error.hint)}")
