"""Base layer: the undo journal. Each change to the machine is recorded here before it is made.

Each run has one file with one JSON line per step, synced to disk, in a fixed directory that later
commands search. An entry is data: the name of an undo action (`undo_actions.py`) and its arguments,
so that another process can undo it after a crash. Entries are undone in reverse order, and undoing
is idempotent: an action that finds nothing left to undo succeeds.

    {"journal": 1, "description": …, "pid": …, "start_ticks": …, "boot": …}
    {"begin": 1, "action": "unmount", "args": {…}}      before the change
    {"add": 1, "args": {…}}                             known only after it (a process id)
    {"end": 1}                                          undone, or no longer needed

A run that ends normally leaves no file. A file whose owner is dead belongs to a run that crashed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.errors import HeadraceError
from headrace.system import shared_settings
from headrace.system.identity import boot_id, start_ticks
from headrace.system.undo_actions import ACTIONS, Action

_SCHEMA = 1


@dataclass(frozen=True)
class JournalEntry:
    """One change that may have been made, and how to undo it."""

    number: int
    action: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class UndoResult:
    """The outcome of undoing one entry."""

    action: str
    args: dict[str, Any]
    done: bool
    """True when nothing of the change is left."""
    text: str
    """One clause for the user: what was done, or why it failed."""


@dataclass(frozen=True)
class PendingJournal:
    """The journal of a run that no longer exists."""

    file: Path
    description: str
    started_utc: str
    pid: int
    same_boot: bool
    """False when the machine was rebooted since the run.

    The run's mounts, loop devices and settings are then gone.
    """
    entries: tuple[JournalEntry, ...]
    """Entries still to be undone, oldest first."""


def journal_directory() -> Path:
    """Return the directory of the journals.

    This is `/var/lib/headrace/journal` for root and `$XDG_STATE_HOME/headrace/journal` for other
    users. `HEADRACE_JOURNAL_DIR` overrides both (for a machine with a read-only /var, and for
    tests).
    """
    if given := os.environ.get("HEADRACE_JOURNAL_DIR"):
        return Path(given)
    if os.geteuid() == 0:
        return Path("/var/lib/headrace/journal")
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "headrace" / "journal"


def _flush_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_whole(handle: int, text: bytes) -> None:
    """Append a text and sync it, or leave the file as it was and raise OSError.

    A disk that gets full takes the first part of a text without an error.
    """
    before, left = os.fstat(handle).st_size, text
    try:
        while left:
            left = left[os.write(handle, left) :]
        os.fsync(handle)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(handle, before)
        raise


class Journal:
    """The journal of this run, a context manager: leaving it undoes the open entries.

    It belongs to the process that opened it: a write from a forked child is a defect and raises
    RuntimeError. It is thread-safe.
    """

    def __init__(self, file: Path, handle: int) -> None:
        self.file = file
        self._handle = handle
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._last = 0
        self._open: dict[int, JournalEntry] = {}

    @classmethod
    def open(cls, description: str, directory: Path | None = None) -> Journal:
        """Start a journal. `description` (the study's title) identifies it to the user later.

        Raises HeadraceError when the journal directory cannot be written to.
        """
        place = directory or journal_directory()
        pid = os.getpid()
        name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{pid}-{os.urandom(3).hex()}"
        header = {
            "journal": _SCHEMA,
            "description": description,
            "pid": pid,
            "start_ticks": start_ticks(pid),
            "boot": boot_id(),
            "started_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Created atomically: a journal without a header looks like one that is just being
            # created.
            unfinished = place / f"{name}.new"
            handle = os.open(
                unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            _write_whole(handle, json.dumps(header).encode() + b"\n")
            file = place / f"{name}.jsonl"
            unfinished.rename(file)
            _flush_directory(place)
        except OSError as error:
            raise HeadraceError(
                f"the undo journal cannot be kept in {place}: {error.strerror}",
                hint="name another place by the environment variable HEADRACE_JOURNAL_DIR",
            ) from error
        return cls(file, handle)

    def _write(self, line: dict[str, Any]) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("a journal is written by the process that opened it alone")
        try:
            _write_whole(self._handle, json.dumps(line).encode() + b"\n")
        except OSError as error:
            raise HeadraceError(
                f"the undo journal {self.file} cannot be written: {error.strerror}"
            ) from error

    def begin(self, action: str, **args: Any) -> JournalEntry:
        """Record on disk that a change, which `action` with `args` undoes, is about to be made.

        Make the change after this call.
        """
        if action not in ACTIONS:
            raise RuntimeError(f"no undo action {action!r}")
        with self._lock:
            entry = JournalEntry(self._last + 1, action, args)
            self._write({"begin": entry.number, "action": action, "args": args})
            self._last = entry.number
            self._open[entry.number] = entry
        return entry

    def add(self, entry: JournalEntry, **args: Any) -> None:
        """Add to an entry what became known only after the change was made."""
        with self._lock:
            if entry.number in self._open:
                self._write({"add": entry.number, "args": args})
                self._open[entry.number] = JournalEntry(
                    entry.number, entry.action, {**self._open[entry.number].args, **args}
                )

    def end(self, entry: JournalEntry) -> None:
        """Record that an entry is undone, or no longer needed. Safe to call twice."""
        with self._lock:
            if entry.number in self._open:
                self._write({"end": entry.number})
                del self._open[entry.number]

    def undo(self, entry: JournalEntry) -> UndoResult:
        """Undo one entry now; on failure it stays in the journal.

        Succeeds when it is already undone.
        """
        with self._lock:
            current = self._open.get(entry.number)
        if current is None:
            return UndoResult(entry.action, entry.args, True, "undone before")
        result = _perform(current, same_boot=True)
        if result.done:
            try:
                self.end(entry)
            except HeadraceError:
                # A full disk must not prevent the other entries from being undone. Undoing this one
                # again is harmless.
                with self._lock:
                    self._open.pop(entry.number, None)
        return result

    def put_back(self, entries: list[JournalEntry]) -> None:
        """Undo `entries`, the last first, and remove the undone ones from the list.

        Every entry is tried. Raises HeadraceError that names every entry that could not be undone;
        those stay in the list and in the journal.
        """
        failed: list[tuple[JournalEntry, str]] = []
        while entries:
            entry = entries.pop()
            result = self.undo(entry)
            if not result.done:
                failed.insert(0, (entry, result.text))
        entries.extend(entry for entry, _ in failed)
        if failed:
            texts = "; ".join(text for _, text in reversed(failed))
            raise HeadraceError(
                f"could not restore: {texts}", hint="try again with `headrace undo`"
            )

    @contextmanager
    def change(self, action: str, **args: Any) -> Generator[JournalEntry]:
        """A change that lasts as long as the block: recorded before it, undone after it.

        Raises HeadraceError when it cannot be undone (the entry then stays for `headrace undo`).
        """
        entry = self.begin(action, **args)
        try:
            yield entry
        finally:
            result = self.undo(entry)
        if not result.done:
            raise HeadraceError(
                f"could not restore: {result.text}", hint="try again with `headrace undo`"
            )

    @property
    def open_entries(self) -> tuple[JournalEntry, ...]:
        """Entries that are not undone yet, oldest first."""
        with self._lock:
            return tuple(self._open[number] for number in sorted(self._open))

    def undo_all(self) -> list[UndoResult]:
        """Undo every open entry, the last first. Never raises; what fails stays in the journal."""
        return [self.undo(entry) for entry in reversed(self.open_entries)]

    def close(self) -> list[UndoResult]:
        """Undo every open entry and remove the journal when none is left. Safe to call twice."""
        if self._handle < 0 or os.getpid() != self._pid:
            return []
        results = self.undo_all()
        if not self._open:
            self.file.unlink(missing_ok=True)
        os.close(self._handle)
        self._handle = -1
        return results

    def hand_over(self, pid: int) -> Path:
        """Transfer the open entries to another process and return the new file.

        The journal is in use as long as that process lives; afterwards `undo` accepts it. This
        journal is closed, and nothing is undone.
        """
        header = json.loads(self.file.read_bytes().split(b"\n", 1)[0])
        header |= {"pid": pid, "start_ticks": start_ticks(pid)}
        for entry in self.open_entries:
            if "token" in entry.args and "key" in entry.args:
                shared_settings.hand_over(entry.args["key"], entry.args["token"], pid)
        lines = [header] + [
            {"begin": entry.number, "action": entry.action, "args": entry.args}
            for entry in self.open_entries
        ]
        moment, _, mark = self.file.stem.split("-")
        file = self.file.with_name(f"{moment}-{pid}-{mark}.jsonl")
        unfinished = file.with_suffix(".new")
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _write_whole(handle, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        finally:
            os.close(handle)
        unfinished.rename(file)
        self.file.unlink()
        _flush_directory(file.parent)
        os.close(self._handle)
        self._handle = -1
        return file

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        failed = [result.text for result in self.close() if not result.done]
        if isinstance(error, HeadraceError):
            error.left += tuple(failed)
        elif failed and error is None:
            raise HeadraceError(
                "could not restore: " + "; ".join(failed), hint="try again with `headrace undo`"
            )


def _perform(entry: JournalEntry, *, same_boot: bool) -> UndoResult:
    action = ACTIONS.get(entry.action)
    if action is None:
        return UndoResult(
            entry.action,
            entry.args,
            False,
            f"{entry.action} is not known to this version of Headrace",
        )
    try:
        if not same_boot and not action.survives_boot:
            text = "gone since the machine was restarted"
        else:
            text = action.undo(entry.args, same_boot)
        subject = action.subject(entry.args)
    except Exception as error:  # whatever the error, the other entries must still be undone
        return UndoResult(entry.action, entry.args, False, _complaint(action, entry, error))
    return UndoResult(entry.action, entry.args, True, f"{subject}: {text}")


def _complaint(action: Action, entry: JournalEntry, error: Exception) -> str:
    """Return one clause: why an entry could not be undone."""
    try:
        subject = action.subject(entry.args)
    except Exception:
        subject = f"{entry.action} {entry.args}"
    if isinstance(error, subprocess.CalledProcessError):
        said = bytes(error.stderr or b"").decode(errors="replace").strip()
        return (
            f"{subject}: {' '.join(map(str, error.cmd))} failed: "
            f"{said or f'exit code {error.returncode}'}"
        )
    if isinstance(error, (OSError, HeadraceError)):
        return f"{subject}: {error}"
    return f"{subject}: {type(error).__name__}: {error}"


def _read(file: Path) -> tuple[dict[str, Any], dict[int, JournalEntry]] | None:
    """Return header and open entries of a journal, None when the file is not a journal.

    A truncated last line is ignored: its change was never made.
    """
    lines: list[dict[str, Any]] = []
    for text in file.read_bytes().split(b"\n"):
        with contextlib.suppress(ValueError):
            line: Any = json.loads(text) if text else None
            if isinstance(line, dict):
                lines.append(line)
    if not lines or lines[0].get("journal") != _SCHEMA:
        return None
    entries: dict[int, JournalEntry] = {}
    for line in lines[1:]:
        if "begin" in line:
            entries[line["begin"]] = JournalEntry(line["begin"], line["action"], line["args"])
        elif "add" in line and line["add"] in entries:
            old = entries[line["add"]]
            entries[old.number] = JournalEntry(old.number, old.action, {**old.args, **line["args"]})
        elif "end" in line:
            entries.pop(line["end"], None)
    return lines[0], entries


def pending_journals(directory: Path | None = None) -> list[PendingJournal]:
    """Return the journals of dead runs that have open entries, newest first.

    They must be undone in this order. Removes journals without open entries.
    """
    place = directory or journal_directory()
    found: list[PendingJournal] = []
    boot = boot_id()
    try:
        files = sorted(place.iterdir(), reverse=True) if place.is_dir() else []
    except OSError:
        return []  # another user's directory; its journals cannot be undone by this user either
    for file in files:
        if file.suffix == ".new" and start_ticks(int(file.name.split("-")[1])) is None:
            file.unlink(missing_ok=True)  # its run died before any change
        if file.suffix != ".jsonl":
            continue
        try:
            read = _read(file)
        except FileNotFoundError:
            continue  # its run has just ended normally
        if read is None:
            continue
        header, entries = read
        same_boot = header["boot"] == boot
        if same_boot and start_ticks(header["pid"]) == header["start_ticks"]:
            continue
        if not entries:
            file.unlink(missing_ok=True)
            continue
        found.append(
            PendingJournal(
                file=file,
                description=header["description"],
                started_utc=header["started_utc"],
                pid=header["pid"],
                same_boot=same_boot,
                entries=tuple(entries[number] for number in sorted(entries)),
            )
        )
    return found


def undo(file: Path) -> list[UndoResult]:
    """Undo a pending journal, the last change first, and remove it when nothing is left.

    Raises HeadraceError when another command is undoing it, or its run is still alive.
    """
    try:
        handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HeadraceError(f"the undo journal {file} cannot be read: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HeadraceError(f"another command is undoing {file} already") from error
        read = _read(file)
        if read is None:
            raise HeadraceError(
                f"{file} is not an undo journal that this version of Headrace reads"
            )
        header, entries = read
        same_boot = header["boot"] == boot_id()
        if same_boot and start_ticks(header["pid"]) == header["start_ticks"]:
            raise HeadraceError(f"the run of {file} is still going on (process {header['pid']})")
        results: list[UndoResult] = []
        for number in sorted(entries, reverse=True):
            result = _perform(entries[number], same_boot=same_boot)
            results.append(result)
            if result.done:
                # A full disk: undoing the entry again is harmless.
                with contextlib.suppress(OSError):
                    # The last line may be truncated.
                    os.write(handle, b"\n" + json.dumps({"end": number}).encode() + b"\n")
        if all(result.done for result in results):
            file.unlink(missing_ok=True)
        return results
    finally:
        os.close(handle)
