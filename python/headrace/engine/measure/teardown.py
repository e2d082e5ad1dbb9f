"""Tear-down steps that all run: an error of one step is noted and never prevents the others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

from headrace.engine.measure.outcome import Step, describe

Entered = TypeVar("Entered")


class TearDown(ExitStack):
    """An ExitStack whose steps add their errors to `errors` instead of raising them.

    Steps run in reverse order of registration. Only exceptions that are not an `Exception`
    (KeyboardInterrupt) propagate, after the remaining steps have run.
    """

    def __init__(self, errors: list[str], unfinished: list[Step] | None = None) -> None:
        """`errors` receives one sentence per failed step, `unfinished` the step itself."""
        super().__init__()
        self.errors = errors
        self._unfinished = unfinished

    def later(self, what: str, step: Callable[[], object], *, vital: bool = False) -> None:
        """Register a step of the tear-down."""
        self.callback(self._attempt, Step(what, step, vital))

    def attempt(self, what: str, step: Callable[[], object]) -> None:
        """Run a step now; note its error."""
        self._attempt(Step(what, step))

    def _attempt(self, step: Step) -> None:
        try:
            step.do()
        except Exception as error:
            self.errors.append(f"{step.what}: {describe(error)}")
            if self._unfinished is not None:
                self._unfinished.append(step)

    def entered(self, what: str, manager: AbstractContextManager[Entered]) -> Entered:
        """Enter a context manager; its exit becomes a step. Raises what entering it raises."""
        value = manager.__enter__()
        self.later(what, lambda: manager.__exit__(None, None, None))
        return value


def try_again(unfinished: list[Step]) -> list[tuple[Step, str]]:
    """Retry failed tear-down steps. Return those that fail again, with the error.

    These stay in the list.
    """
    failed: list[tuple[Step, str]] = []
    for step in unfinished:
        try:
            step.do()
        except Exception as error:
            failed.append((step, f"{step.what}: {describe(error)}"))
    unfinished[:] = [step for step, _ in failed]
    return failed
