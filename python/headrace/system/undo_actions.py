"""Base layer: the undo actions that the journal refers to by name.

Every action takes data only, is idempotent, and changes only what is certainly ours: the mount of
our source, the loop device backed by our file, the file with our inode, the process with our mark.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.system import (
    batch_jobs,
    blktrace,
    block_queue,
    loops,
    mounts,
    network_namespaces,
    processes,
    remote_folders,
    shared_settings,
    signatures,
    silent_mounts,
    tracefs,
    unix_sockets,
)
from headrace.system.identity import start_ticks
from headrace.system.owned import OWNER_FILE
from headrace.system.waiting import retry, wait_until

Args = dict[str, Any]
_SOCKET_PATIENCE_S = 5.0


@dataclass(frozen=True)
class Action:
    """How to undo one kind of change."""

    undo: Callable[[Args, bool], str]
    """Undo the change; return what was done, as a clause.

    Takes the arguments and whether the machine is still in the same boot. Raises OSError or
    HeadraceError when something of the change is left.
    """
    subject: Callable[[Args], str]
    """The object of the change, for messages."""
    survives_boot: bool = False
    """True when the change outlives a reboot (files, file systems)."""


def _write_setting(args: Args, same_boot: bool) -> str:
    return shared_settings.write(Path(args["path"]), str(args["value"]))


def _release_setting(args: Args, same_boot: bool) -> str:
    path = Path(args["path"])
    return shared_settings.release(
        args["key"], args["token"], lambda before: shared_settings.write(path, str(before))
    )


def _restore_queue(args: Args, same_boot: bool) -> str:
    def put_back(state: Any) -> str:
        return block_queue.put_back(args["disk"], args["disk_sequence"], state)

    if "token" not in args:  # journals of Headrace 0.1
        return put_back(args["state"])
    return shared_settings.release(args["key"], args["token"], put_back)


def _unmount(args: Args, same_boot: bool) -> str:
    directory, source, lazy = Path(args["directory"]), str(args["source"]), bool(args.get("lazy"))
    if lazy and mounts.is_mounted(directory, source) and not silent_mounts.answers(directory):
        # A network file system with a dead or stalled server: a normal unmount would block for
        # ever.
        mounts.abort(directory, source)
        return "let go of; its server did not answer"
    patience_s = float(args.get("patience_s", mounts.PATIENCE_S))
    count = mounts.unmount(directory, source, lazy=lazy, patience_s=patience_s)
    return "unmounted" if count else "not mounted"


def _detach_loop(args: Args, same_boot: bool) -> str:
    detached = loops.detach_backed_by(Path(args["file"]), args["inode"])
    return f"detached {', '.join(detached)}" if detached else "not attached"


def _detach_emulated(args: Args, same_boot: bool) -> str:
    detached = loops.detach_labelled(args["label"])
    return f"detached {', '.join(detached)}" if detached else "not attached"


def _is_same_file(found: os.stat_result, args: Args, same_boot: bool) -> bool:
    # Device numbers are assigned at each boot; the inode number is stable.
    return found.st_ino == args["inode"] and (not same_boot or found.st_dev == args["device"])


def _remove_file(args: Args, same_boot: bool) -> str:
    path = Path(args["path"])
    try:
        found = path.lstat()
    except FileNotFoundError:
        return "not there"
    if not stat.S_ISREG(found.st_mode):
        return "left alone: another thing has its name"
    if "inode" in args and not _is_same_file(found, args, same_boot):
        return "left alone: another file has its name"
    if "inode" not in args and args["token"] not in path.name:
        raise ValueError("an unnamed file")
    path.unlink()
    return "removed"


def _is_listened_on(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        # Non-blocking: a listener that never accepts must not block this.
        probe.setblocking(False)
        try:
            unix_sockets.connect(probe, path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except BlockingIOError:
            return True
    return True


def _remove_sockets(args: Args, same_boot: bool) -> str:
    removed: list[str] = []
    for name in args["paths"]:
        path = Path(name)
        if not path.is_socket():
            continue
        # A killed process with many threads disappears before its last thread has closed its
        # socket.
        if not wait_until(lambda path=path: not _is_listened_on(path), _SOCKET_PATIENCE_S, 0.1):
            raise HeadraceError(f"{name} is still listened on")
        path.unlink(missing_ok=True)
        removed.append(path.name)
    return f"removed {', '.join(removed)}" if removed else "not there"


def _remove_directory(args: Args, same_boot: bool) -> str:
    try:
        Path(args["path"]).rmdir()
    except FileNotFoundError:
        return "not there"
    except OSError:
        if not any(Path(args["path"]).iterdir()):
            raise
        return "left alone: it is not empty"
    return "removed"


def _remove_tree(args: Args, same_boot: bool) -> str:
    path = Path(args["path"])
    if not path.is_dir() or path.is_symlink():
        return "not there"
    owner = path / OWNER_FILE
    entries = list(path.iterdir())
    if not entries:
        path.rmdir()
        return "removed"
    if not owner.is_file() or owner.read_text() != args["token"]:
        return "left alone: it does not carry our mark"
    if beneath := [
        mount.directory for mount in mounts.read_mounts() if mount.directory.is_relative_to(path)
    ]:
        raise HeadraceError(f"{beneath[0]} is still mounted in it")
    # The mark is removed last, so that an interrupted removal can be repeated.
    for entry in entries:
        if entry == owner:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    owner.unlink()
    path.rmdir()
    return "removed"


def _remove_cgroup(args: Args, same_boot: bool) -> str:
    path = Path(args["path"])
    if not path.is_dir():
        return "not there"
    for child in sorted((entry for entry in path.rglob("*") if entry.is_dir()), reverse=True):
        _leave_cgroup(child, path.parent)
    _leave_cgroup(path, path.parent)
    return "removed"


def _leave_cgroup(group: Path, parent: Path) -> None:
    def leave() -> None:
        with contextlib.suppress(FileNotFoundError):
            for pid in (group / "cgroup.procs").read_text().split():
                # In version 2 a group that controls groups below it takes no process.
                for above in (parent, *parent.parents):
                    with contextlib.suppress(OSError):
                        (above / "cgroup.procs").write_text(pid)
                        break
            group.rmdir()

    retry(leave, OSError, 5.0, 0.02)


_UNMARKED_S = 1.0
"""Time allowed from fork to the end of exec, for two CPUs with eleven runnable processes."""


def _marked(mark: str) -> dict[int, int | None]:
    return {pid: start_ticks(pid) for pid in processes.marked(mark)}


def _end_process(args: Args, same_boot: bool) -> str:
    ended: list[str] = []
    known = {args["pid"]: args["start_ticks"]} if "pid" in args else {}
    if not known:
        # A process that was started just before our crash carries its mark only after its exec.
        wait_until(lambda: processes.marked(args["mark"]), _UNMARKED_S, 0.02)
    # Repeated until none is found: one process may start another while it is being ended.
    while ours := known | _marked(args["mark"]):
        for pid, ticks in ours.items():
            if ticks is not None and start_ticks(pid) == ticks:
                if not processes.end(pid, ticks):
                    raise HeadraceError(
                        f"process {pid} does not end (state {processes.state(pid)})"
                    )
                ended.append(str(pid))
        known = {}
    return f"ended {', '.join(ended)}" if ended else "not running"


def _remove_trace_instance(args: Args, same_boot: bool) -> str:
    return "removed" if tracefs.remove_instance(args["name"]) else "not there"


def _end_block_trace(args: Args, same_boot: bool) -> str:
    return blktrace.end_trace(args["disk"], args.get("inode")) if same_boot else "not there"


def _delete_netns(args: Args, same_boot: bool) -> str:
    return "deleted" if network_namespaces.delete(args["name"]) else "not there"


_BLANK_PATIENCE_S = 15.0


def _blank_device(args: Args, same_boot: bool) -> str:
    device = Path(args["device"])
    if not device.is_block_device():
        return "not there"
    if signatures.device_size(device) != args["size"]:
        return "left alone: it is another device"
    found = signatures.read_signature(device)
    if found is None:
        return "blank"
    if found.uuid != args["uuid"]:
        return f"left alone: it holds another file system ({found.type})"
    # A mount namespace created while the device was mounted (of a server or another run) can hold
    # it for a moment longer.
    if not wait_until(lambda: not signatures.holders(device), _BLANK_PATIENCE_S, 0.1):
        raise HeadraceError("still in use")
    signatures.blank(device)
    return "blanked again"


def _cancel_batch_job(args: Args, same_boot: bool) -> str:
    job, name = args.get("job"), args["name"]
    if job is None and args["system"] not in ("slurm", "sge"):
        return "not known; it ends by itself when it finds no scheduler"
    return batch_jobs.cancel(args["system"], str(job or name))


def _clear_url(args: Args, same_boot: bool) -> str:
    return remote_folders.clear(args["url"], args["environment"])


def _drop_unfinished(args: Args, same_boot: bool) -> str:
    return remote_folders.drop_unfinished(
        args["url"], args["environment"], args["token"], args["note"]
    )


def _path_subject(noun: str, key: str = "path") -> Callable[[Args], str]:
    return lambda args: f"{noun} {args[key]}"


ACTIONS: dict[str, Action] = {
    "write_setting": Action(_write_setting, _path_subject("setting")),
    "release_setting": Action(_release_setting, _path_subject("setting")),
    "restore_queue": Action(_restore_queue, _path_subject("queue of", "disk")),
    "unmount": Action(_unmount, _path_subject("mount", "directory")),
    "detach_loop": Action(_detach_loop, _path_subject("loop device of", "file")),
    "detach_emulated": Action(_detach_emulated, _path_subject("emulated drive", "label")),
    "remove_file": Action(_remove_file, _path_subject("file"), survives_boot=True),
    "remove_sockets": Action(
        _remove_sockets, lambda args: f"sockets {', '.join(args['paths'])}", survives_boot=False
    ),
    "remove_directory": Action(_remove_directory, _path_subject("directory"), survives_boot=True),
    "remove_tree": Action(_remove_tree, _path_subject("directory"), survives_boot=True),
    "remove_cgroup": Action(_remove_cgroup, _path_subject("control group")),
    "end_process": Action(
        _end_process, lambda args: f"process {args.get('pid', '(of mark ' + args['mark'] + ')')}"
    ),
    "remove_trace_instance": Action(
        _remove_trace_instance, _path_subject("trace instance", "name")
    ),
    "end_block_trace": Action(_end_block_trace, _path_subject("blktrace of", "disk")),
    "delete_netns": Action(_delete_netns, _path_subject("network namespace", "name")),
    "cancel_batch_job": Action(
        _cancel_batch_job,
        lambda args: f"{args['system']} job {args.get('job', args['name'])}",
        survives_boot=True,
    ),
    "clear_url": Action(_clear_url, _path_subject("folder", "url"), survives_boot=True),
    "drop_unfinished": Action(_drop_unfinished, _path_subject("folder", "url"), survives_boot=True),
    "blank_device": Action(
        _blank_device, _path_subject("file system on", "device"), survives_boot=True
    ),
}
"""Every undo action by its name in the journal. Names never change: journals outlive versions."""
