"""The storage of a node, in the node's own process (`headrace.targets.node_storage`)."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import xxhash
from pydantic import BaseModel
from typing_extensions import override

from headrace import targets, workloads
from headrace.datasets.integrity import MANIFEST, VERIFIED, find_damage, note_right, read_manifest
from headrace.errors import (
    NO_SPACE,
    HeadraceError,
    Problem,
    RefusedError,
    UnsupportedLevelError,
)
from headrace.launchers.agent import NodeInUseError
from headrace.system import devices
from headrace.system.claims import claimed
from headrace.system.emulator import Report
from headrace.system.journal import Journal, JournalEntry
from headrace.system.owned import OURS, make_tree, work_directory
from headrace.system.storage import free_bytes
from headrace.system.storage_settings import StorageSettings
from headrace.targets import EmulatedDrive, Location, Setting, Target, TargetContext
from headrace.targets.node_storage import (
    FilesLacking,
    FilesWanted,
    NodeCheck,
    NodeDisk,
    NodeLack,
    NodeLocation,
    NodeStorage,
    TargetOfNode,
    WorkloadOfNode,
)
from headrace.units import format_amount


@dataclass(frozen=True)
class _Prepared:
    """A target that is set up, or that could not be torn down."""

    target: Target
    context: TargetContext
    claims: ExitStack
    drives: Sequence[EmulatedDrive] = ()


@dataclass(frozen=True)
class _Incoming:
    """A file that is being received."""

    file: BinaryIO
    partial: Path
    digest: xxhash.xxh3_128


class LocalNodeStorage(NodeStorage):
    """The storage of the machine that this process runs on."""

    def __init__(self, journal: Journal, agent: StorageSettings) -> None:
        self._journal = journal
        self._agent = agent
        self._work_dir: Path | None = None
        self._prepared: dict[str, _Prepared] = {}
        self._scratch: dict[str, list[JournalEntry]] = {}
        """By directory of the target: oldest first."""
        self._incoming: dict[Path, _Incoming] = {}

    def close(self) -> None:
        """Tear everything down. What cannot be is in the undo journal."""
        for incoming in self._incoming.values():
            _discard(incoming)
        self._incoming.clear()
        for directory in list(self._scratch):
            with contextlib.suppress(HeadraceError):
                self.remove_scratch(directory)
        for name in list(self._prepared):
            with contextlib.suppress(HeadraceError):
                self.release_target(name)

    # -- targets --

    @override
    def check_target(self, target: TargetOfNode) -> NodeCheck:
        made = _made(target)
        problems = made.check(frozenset(target.forced_devices))
        return NodeCheck(
            _lacks(problems),
            tuple(str(place.path) for place in made.claims()),
        )

    @override
    def prepare_target(self, target: TargetOfNode) -> NodeLocation:
        if target.name in self._prepared:
            self.release_target(target.name)
        made = _made(target)
        if (why_not := made.unsupported()) is not None:
            raise UnsupportedLevelError(why_not)
        with ExitStack() as stack:
            context = self._context(target)
            try:
                stack.enter_context(claimed(made.claims()))
            except RefusedError as error:
                raise NodeInUseError(error.message) from error
            location = made.prepare(context)
            try:
                found = _located(location)
            except BaseException:
                made.release(context)
                raise
            drives = location.emulated
            self._prepared[target.name] = _Prepared(made, context, stack.pop_all(), drives)
        return found

    def _context(self, target: TargetOfNode) -> TargetContext:
        if self._work_dir is None:
            self._work_dir, _ = work_directory(self._journal)
        return TargetContext(
            self._work_dir,
            self._journal,
            frozenset(target.forced_devices),
            agents=(self._agent,),
        )

    @override
    def apply_target(self, name: str, options: dict[str, object]) -> list[Setting]:
        prepared = self._found(name)
        given = type(prepared.target).Options.model_validate(options)
        return prepared.target.apply(given, prepared.context)

    @override
    def read_target(self, name: str) -> dict[str, object]:
        return self._found(name).target.read_settings()

    @override
    def release_target(self, name: str) -> None:
        if (prepared := self._prepared.get(name)) is not None:
            prepared.target.release(prepared.context)
            prepared.claims.close()
            del self._prepared[name]

    def _found(self, name: str) -> _Prepared:
        if name not in self._prepared:
            raise HeadraceError(f"target {name} is not set up here")
        return self._prepared[name]

    # -- emulated drives --

    @override
    def drive_report(self, name: str, drive: int) -> Report:
        return self._found(name).drives[drive].report()

    @override
    def reset_drive_report(self, name: str, drive: int) -> None:
        self._found(name).drives[drive].reset_report()

    # -- files --

    @override
    def make_scratch(self, directory: str) -> str:
        self.remove_scratch(directory)
        path = Path(directory) / OURS / "scratch"
        entries = self._scratch[directory] = []
        make_tree(self._journal, path, entries)
        return str(path)

    @override
    def write_mark(self, scratch: str, token: str) -> None:
        (Path(scratch) / "mark").write_text(token)

    @override
    def remove_scratch(self, directory: str) -> None:
        if (entries := self._scratch.get(directory)) is not None:
            self._journal.put_back(entries)
            del self._scratch[directory]

    @override
    def check_workload(self, workload: WorkloadOfNode) -> tuple[NodeLack, ...]:
        return _lacks(_workload(workload).check())

    @override
    def prepare_files(
        self, workload: WorkloadOfNode, directory: str, slots: int, seed: int
    ) -> list[str]:
        made = _workload(workload)
        place = Path(directory) / OURS
        made.check_room(place, slots)
        return made.prepare_files(place, slots, seed)

    @override
    def lacking_files(self, wanted: FilesWanted) -> FilesLacking:
        folder = Path(wanted.directory) / OURS / "datasets" / _plain(wanted.key)
        manifest = folder / MANIFEST
        same = manifest.is_file() and manifest.read_bytes() == wanted.manifest
        if not same:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / VERIFIED).unlink(missing_ok=True)
            manifest.write_bytes(wanted.manifest)
        checksums = wanted.thorough or not same
        found = find_damage(folder, checksums=checksums, names=wanted.names)
        names = tuple(each.name for each in found)
        _check_space(folder, names)
        return FilesLacking(
            str(folder), names, tuple(name for name in names if (folder / _plain(name)).exists())
        )

    @override
    def write_file(self, folder: str, name: str, offset: int, data: bytes) -> None:
        place = Path(folder) / _plain(name)
        if offset == 0:
            self._begin(place)
        incoming = self._incoming.get(place)
        if incoming is None or incoming.file.tell() != offset:
            raise HeadraceError(f"{place}: a piece at {offset} B was not expected")
        try:
            incoming.file.write(data)
        except OSError as error:
            _discard(self._incoming.pop(place))
            if error.errno in NO_SPACE:
                raise HeadraceError(f"no space left on {folder} for the data set") from None
            raise
        incoming.digest.update(data)

    def _begin(self, place: Path) -> None:
        if place in self._incoming:
            _discard(self._incoming.pop(place))
        partial = place.with_name(f".{place.name}.partial-{os.getpid()}")
        # Also those of a node process that was killed.
        for old in place.parent.glob(f".{glob.escape(place.name)}.partial-*"):
            old.unlink(missing_ok=True)
        self._incoming[place] = _Incoming(partial.open("xb"), partial, xxhash.xxh3_128())

    @override
    def finish_file(self, folder: str, name: str) -> bool:
        place = Path(folder) / _plain(name)
        incoming = self._incoming.pop(place)
        try:
            files = read_manifest(Path(folder)).files
            known = {str(each["name"]): str(each["xxh3"]) for each in files}
            if incoming.digest.hexdigest() != known.get(name):
                return False
            incoming.file.flush()
            os.fsync(incoming.file.fileno())
            incoming.partial.replace(place)
        finally:
            _discard(incoming)
        note_right(Path(folder), [name])
        return True


def _made(target: TargetOfNode) -> Target:
    kind = targets.kinds()[target.kind]
    return kind(target.name, kind.Options.model_validate(target.options))


def _workload(workload: WorkloadOfNode) -> workloads.Workload:
    kind = workloads.kinds()[workload.kind]
    return kind(workload.name, kind.Options.model_validate(workload.options))


def _lacks(problems: Sequence[Problem]) -> tuple[NodeLack, ...]:
    return tuple(
        NodeLack(each.what, each.remedy, each.fatal, each.level, each.without) for each in problems
    )


def _located(location: Location) -> NodeLocation:
    """Return a location as plain data."""
    if location.directory is None:
        raise HeadraceError("a storage without a directory belongs to no node")
    names = location.device_names
    disks = (
        {}
        if location.emulated
        else dict.fromkeys(disk for name in names for disk in devices.whole_disks(name))
    )
    described = [devices.describe(name) for name in disks]
    return NodeLocation(
        str(location.directory),
        names,
        location.own_device,
        location.network,
        location.provenance,
        cast("dict[str, object]", _data(location.description)),
        tuple(device.name for device in location.emulated),
        tuple(NodeDisk(each.name, each.model, each.size_bytes) for each in described),
    )


def _data(value: object) -> object:
    """Return a value of a description as JSON-compatible data."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(key): _data(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [_data(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def _plain(name: str) -> str:
    """Return a name that comes from another machine, if it names a file of the folder itself."""
    if name in ("", ".", "..") or {"/", "\0"} & set(name):
        raise HeadraceError(f"{name!r} is not a name of a file")
    return name


def _check_space(folder: Path, names: Sequence[str]) -> None:
    """Raise HeadraceError when files of a data set do not fit beside what is there."""
    size = sum(int(file["bytes"]) for file in read_manifest(folder).files if file["name"] in names)
    if size > (free := free_bytes(folder)):
        raise HeadraceError(
            f"no space on {folder.parents[2]} for the data set: it takes {format_amount(size)}, "
            f"{format_amount(free)} are free"
        )


def _discard(incoming: _Incoming) -> None:
    with contextlib.suppress(OSError):
        incoming.file.close()
    with contextlib.suppress(OSError):
        incoming.partial.unlink()
