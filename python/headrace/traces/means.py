"""The two kernel interfaces that record block requests: tracefs and blktrace.

Each prepares the input of `headrace-blocktrace`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from headrace.errors import FileProblem, HeadraceError, MissingError, StudyError
from headrace.system import blktrace, tracefs
from headrace.system.journal import Journal
from headrace.system.tracefs import TracedDevice


class Means(Protocol):
    """A capture interface. Order: `prepare`, start the recorder, `begin`, `end`; the journal tears
    everything down."""

    name: str
    begins_by_itself: bool
    """True if the recorder records from its own start on, not from `begin`."""

    def prepare(
        self, journal: Journal, directory: Path, devices: list[TracedDevice], out: Path
    ) -> dict[str, object]:
        """Prepare the capture, with our own empty directory to mount on; return the recorder's
        task."""
        ...

    def begin(self, journal: Journal) -> None:
        """Start to record; called when the recorder runs."""
        ...

    def end(self) -> None:
        """Stop recording."""
        ...


class ByTracefs:
    """A private instance of tracefs."""

    name = "tracefs"
    begins_by_itself = False
    lacking = staticmethod(tracefs.lacking)

    def prepare(
        self, journal: Journal, directory: Path, devices: list[TracedDevice], out: Path
    ) -> dict[str, object]:
        """Create a private instance that is switched off. Raises MissingError, HeadraceError."""
        self._instance = tracefs.make_instance(journal, directory, devices)
        disks = {each.name: each for each in devices}.values()
        return {
            "instance": str(self._instance.directory),
            "out": str(out),
            "devices": [
                {"name": each.name, "number": each.number, "also": each.also} for each in disks
            ],
        }

    def begin(self, journal: Journal) -> None:
        """Switch the instance on."""
        self._instance.switch(on=True)

    def end(self) -> None:
        """Switch the instance off."""
        self._instance.switch(on=False)


class ByBlktrace:
    """The kernel's blktrace, whose files are in debugfs."""

    name = "blktrace"
    begins_by_itself = True
    lacking = staticmethod(blktrace.lacking)

    def prepare(
        self, journal: Journal, directory: Path, devices: list[TracedDevice], out: Path
    ) -> dict[str, object]:
        """Find debugfs, or mount it. Raises MissingError, HeadraceError."""
        disks = {each.name: each for each in devices}
        if len(disks) < len(devices):
            raise HeadraceError(
                "blktrace looks at one part of a disk",
                hint="name one partition of it, or the whole disk",
            )
        self._entries = [blktrace.expect_trace(journal, directory, disk) for disk in disks]
        return {
            "debugfs": str(self._entries[0][0]),
            "out": str(out),
            "disks": [{"name": each.name, "sectors": each.sectors or (0, 0)} for each in devices],
        }

    def begin(self, journal: Journal) -> None:
        """Note in the journal which traces are ours."""
        for root, entry in self._entries:
            blktrace.trace_is_ours(journal, entry, root)

    def end(self) -> None:
        """Do nothing: the recorder ends the traces."""


MEANS: dict[str, type[ByTracefs | ByBlktrace]] = {"tracefs": ByTracefs, "blktrace": ByBlktrace}


def lacking(by: str | None = None) -> tuple[str, str] | None:
    """Return (what is missing, what to do) for one interface, or for all; None if one is available.
    Raises StudyError for an unknown interface."""
    if by is not None and by not in MEANS:
        raise StudyError(
            [
                FileProblem(
                    Path("command line"),
                    0,
                    "--with",
                    by,
                    "is not a way to capture",
                    ", ".join(MEANS),
                )
            ]
        )
    found = {name: MEANS[name].lacking() for name in MEANS if by in (None, name)}
    missing = [each for each in found.values() if each is not None]
    if len(missing) < len(found):
        return None
    return "; ".join(dict.fromkeys(what for what, _ in missing)), missing[0][1]


def means(by: str | None) -> Means:
    """Return the requested interface; by default tracefs, or blktrace if tracefs is unavailable.
    Raises MissingError, StudyError."""
    if (missing := lacking(by)) is not None:
        raise MissingError(missing[0], hint=missing[1])
    if by is None:
        by = next(name for name in MEANS if MEANS[name].lacking() is None)
    return MEANS[by]()
