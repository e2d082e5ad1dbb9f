"""Emulated drives that outlive the command that attached them.

Their undo journal belongs to the emulator's process: it is in use while that process lives, and
afterwards `headrace undo` finds it like that of any crashed run.
"""

from __future__ import annotations

from pathlib import Path

from headrace.errors import HeadraceError, RefusedError
from headrace.scenario import StorageSpec
from headrace.system import journal as journals
from headrace.system import loops, signatures
from headrace.system.emulator.attaching import attach
from headrace.system.emulator.device import EmulatedDevice
from headrace.system.emulator.queue_shape import QueueShape
from headrace.system.emulator.running import Running
from headrace.system.identity import start_ticks
from headrace.system.journal import Journal
from headrace.system.owned import work_directory
from headrace.system.waiting import wait_until

_JOURNAL = "journal"
"""File in the emulator's directory with the path of its journal; a run's drives have none."""


def attach_lasting(
    storage: StorageSpec,
    size_bytes: int,
    *,
    seed: int,
    queue: QueueShape | None = None,
    data_limit_bytes: int | None = None,
) -> EmulatedDevice:
    """Attach a device as `attach` does, until `detach_lasting`."""
    with Journal.open(f"an emulated drive ({storage['drives'][0].get('name')})") as journal:
        directory, _ = work_directory(journal)
        made = attach(
            journal,
            storage,
            size_bytes,
            directory,
            seed=seed,
            queue=queue,
            data_limit_bytes=data_limit_bytes,
        )
        (directory / _JOURNAL).write_text(str(journal.hand_over(made.pid)))
    return made


def belongs_to_run(one: Running) -> bool:
    """Return whether a run attached it, which will also detach it."""
    return not (one.control.parent / _JOURNAL).is_file()


def detach_lasting(one: Running, patience_s: float = 8.0) -> None:
    """Detach a device of `attach_lasting`.

    Raises RefusedError while it is in use or when it belongs to a run.
    """
    if belongs_to_run(one):
        raise RefusedError(f"{one.device} belongs to a run that is going on", hint="end the run")
    if one.device is not None and (users := signatures.holders(one.device)):
        raise RefusedError(
            f"{one.device} is in use: {'; '.join(users)}", hint="unmount it and try again"
        )
    file = Path((one.control.parent / _JOURNAL).read_text())
    loops.detach_labelled(one.label, patience_s)
    if not wait_until(lambda: start_ticks(one.pid) != one.start_ticks, patience_s, 0.005):
        raise HeadraceError(
            f"process {one.pid} of {one.device} does not end",
            hint=f"kill {one.pid}; headrace undo",
        )
    if failed := [result.text for result in journals.undo(file) if not result.done]:
        raise HeadraceError(f"{one.device}: {'; '.join(failed)}", hint="headrace undo")
