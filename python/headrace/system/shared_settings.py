"""Base layer: kernel settings that several processes may change; the last one restores them.

One file per setting stores the value before the first change and the processes that hold the
setting (process id and start time). A dead process holds nothing; the stored value is kept until a
later holder or `headrace undo` restores it. The files are in /run, which a reboot empties just as
it resets the settings. Other users than root have their own directory, because the settings they
can change are theirs alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError
from headrace.system.identity import boot_id, is_alive, start_ticks

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry


@dataclass(frozen=True)
class _Holder:
    token: str
    pid: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        return is_alive(self.pid, self.start_ticks)


@dataclass(frozen=True)
class _Held:
    """One setting that is held, or was held by processes that have died."""

    key: str
    before: Any
    """The value before the first change."""
    holders: tuple[_Holder, ...]
    path: str | None = None
    """The kernel file to which `before` is written; None for the queue of a disk."""
    disk: str | None = None
    disk_sequence: int | None = None
    """The disk whose queue `before` is, and which of the disks of this name."""
    after: str | None = None
    """Text of the kernel file after the last change; None when unknown, or when `before` is no such
    text."""


def folder() -> Path:
    """Return the directory of the holder files: per machine for root, per user for others."""
    if os.geteuid() == 0:
        return Path("/run" if os.access("/run", os.W_OK) else "/var/lib", "headrace/settings")
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "headrace" / "settings"


@contextmanager
def _locked() -> Generator[None]:
    """Lock the holder files against other processes. Raises HeadraceError."""
    place = folder()
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise HeadraceError(
            f"{place}, where settings are shared, cannot be used: {error.strerror}"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _file(key: str) -> Path:
    return folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _load(file: Path) -> _Held | None:
    """Return the stored state of a setting; None when there is none of this boot."""
    try:
        table = json.loads(file.read_bytes())
        if table["boot"] != boot_id():
            return None
        holders = tuple(_Holder(**each) for each in table["holders"])
        return _Held(
            table["key"],
            table["before"],
            holders,
            table["path"],
            table.get("disk"),
            table.get("disk_sequence"),
            table.get("after"),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _store(held: _Held) -> None:
    file = _file(held.key)
    unfinished = file.with_suffix(".new")
    try:
        unfinished.write_text(json.dumps({"boot": boot_id(), **asdict(held)}))
        unfinished.replace(file)
    except OSError as error:
        raise HeadraceError(f"{file} cannot be written: {error.strerror}") from error


def holders(key: str) -> list[int]:
    """Return the ids of the living processes that hold a setting."""
    found = _load(_file(key))
    return [each.pid for each in found.holders if each.alive] if found is not None else []


@contextmanager
def held(
    key: str,
    now: Callable[[], Any],
    is_set: Callable[[], bool],
    path: Path | None = None,
    *,
    disk: str | None = None,
    disk_sequence: int | None = None,
) -> Generator[str | None]:
    """Become a holder of a setting; yield the token for `release`.

    Yields None, and holds nothing, when the setting already has the wanted value (`is_set`) and no
    process of Headrace holds it. `now` returns the current value; it is not used when an earlier
    holder has stored one. Write the token to the journal first in the block, then make the change.
    When the block raises, the caller holds nothing.
    """
    token = os.urandom(8).hex()
    with _locked():
        found = _load(_file(key))
        if found is None and is_set():
            yield None
            return
        others = tuple(each for each in found.holders if each.alive) if found is not None else ()
        ours = _Holder(token, os.getpid(), start_ticks(os.getpid()) or 0)
        before = found.before if found is not None else now()
        where = None if path is None else str(path)
        _store(_Held(key, before, (*others, ours), where, disk, disk_sequence))
        try:
            yield token
        except BaseException:
            if found is not None:
                _store(found)
            else:
                _file(key).unlink(missing_ok=True)
            raise


def release(key: str, token: str, put_back: Callable[[Any], str]) -> str:
    """Stop holding a setting; the last holder restores it by `put_back(value before)`.

    Return what was done, as a clause. Raises what `put_back` raises; the setting is then still
    held.
    """
    with _locked():
        found = _load(_file(key))
        if found is None:
            return "restored before"
        left = [each for each in found.holders if each.token != token and each.alive]
        if left:
            _store(replace(found, holders=tuple(left)))
            return f"left as it is for process {left[0].pid}, which needs it too"
        said = _changed_since(found) or put_back(found.before)
        _file(key).unlink(missing_ok=True)
        return said


def hand_over(key: str, token: str, pid: int) -> None:
    """Transfer a holder's place to another process."""
    with _locked():
        found = _load(_file(key))
        if found is not None:
            heir = _Holder(token, pid, start_ticks(pid) or 0)
            holders = tuple(heir if each.token == token else each for each in found.holders)
            _store(replace(found, holders=holders))


def _changed_since(found: _Held) -> str | None:
    """Return what to say of a kernel file that was changed since: it is left alone.

    Its loop device, for example, may be another program's by now.
    """
    if found.path is None or found.after is None:
        return None
    try:
        now = Path(found.path).read_text().strip()
    except OSError:
        return None
    if now in (found.after, str(found.before)):
        return None
    return f"left alone: it was set to {now} since"


def write(path: Path, value: str) -> str:
    """Restore a kernel file to a value; return what was done. Raises OSError."""
    if not path.exists():
        return "gone"
    with contextlib.suppress(OSError):  # some settings are write-only
        if path.read_text().strip() == value:
            return f"stands at {value} as before"
    path.write_text(value)
    return f"set back to {value}"


def _note_change(key: str, path: Path) -> None:
    """Store what a kernel file contains after a change. Call while its holder is being added."""
    found = _load(_file(key))
    with contextlib.suppress(OSError):  # some settings are write-only
        if found is not None:
            _store(replace(found, after=path.read_text().strip()))


def set_file(
    journal: Journal,
    path: Path,
    value: str,
    *,
    before: str | None = None,
    key: str | None = None,
    is_set: Callable[[], bool] | None = None,
) -> JournalEntry | None:
    """Write `value` to a kernel file; return the entry that restores it after its last holder.

    Return None when the setting already has the wanted value and no process of Headrace holds it.
    `before` and `key` are the value to restore and the setting's name, when these are not the
    file's text and path; `is_set` tells whether the value is the wanted one. Raises OSError when
    the kernel refuses; nothing is held then.
    """

    def as_wanted() -> bool:
        return is_set() if is_set is not None else path.read_text().strip() == value

    def now() -> str:
        return path.read_text().strip() if before is None else before

    key = key or str(path)
    with held(key, now, as_wanted, path) as token:
        if token is None:
            return None
        entry = journal.begin("release_setting", path=str(path), key=key, token=token)
        try:
            if not as_wanted():
                path.write_text(value)
            if before is None:
                _note_change(key, path)
        except OSError:
            journal.end(entry)
            raise
    return entry


def put_back_abandoned(put_back_queue: Callable[[str, int | None, Any], str]) -> list[str]:
    """Restore every setting held only by dead processes; return one sentence for each.

    `put_back_queue` restores the queue of a disk: name, sequence number, state. Journals do this
    too; this is for processes whose journal is gone. Never raises.
    """
    said: list[str] = []
    # Path.is_dir raises PermissionError in another user's home.
    if not os.path.isdir(folder()):  # noqa: PTH112
        return said
    with contextlib.suppress(HeadraceError), _locked():
        stored = [(file, _load(file)) for file in sorted(folder().glob("*.json"))]
        # Before anything is restored: one setting can change another, as that of the largest
        # request does the read-ahead.
        changed = {file: _changed_since(found) for file, found in stored if found is not None}
        for file, found in stored:
            if found is None:
                file.unlink(missing_ok=True)
                continue
            if any(each.alive for each in found.holders):
                continue
            subject = f"queue of {found.disk}" if found.disk else f"setting {found.path}"
            try:
                if found.disk is not None:
                    done = put_back_queue(found.disk, found.disk_sequence, found.before)
                elif found.path is not None:
                    done = changed[file] or write(Path(found.path), str(found.before))
                else:
                    continue  # a queue, stored by Headrace 0.1
            except (OSError, HeadraceError, TypeError) as error:
                said.append(f"{subject}: {error}")
            else:
                said.append(f"{subject}: {done}")
                file.unlink(missing_ok=True)
    return said
