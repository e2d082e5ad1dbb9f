"""The storage of a node process, as the engine sees it: every method is a call."""

from __future__ import annotations

import contextlib

from typing_extensions import override

from headrace.launchers import LauncherLostError
from headrace.launchers.remote.connection import NodeConnection
from headrace.system.emulator import Report
from headrace.targets import Setting
from headrace.targets.node_storage import (
    FilesLacking,
    FilesWanted,
    NodeCheck,
    NodeLack,
    NodeLocation,
    NodeStorage,
    TargetOfNode,
    WorkloadOfNode,
)


class RemoteNodeStorage(NodeStorage):
    """The storage of another process. Raises LauncherLostError when the node is lost.

    What is torn down on a lost node is undone there: its process ends, and has an undo journal.
    """

    def __init__(self, connection: NodeConnection) -> None:
        self._connection = connection

    @property
    @override
    def is_lost(self) -> bool:
        return self._connection.lost is not None

    @override
    def check_target(self, target: TargetOfNode) -> NodeCheck:
        return self._connection.call(NodeStorage.check_target, target)

    @override
    def prepare_target(self, target: TargetOfNode) -> NodeLocation:
        return self._connection.call(NodeStorage.prepare_target, target)

    @override
    def apply_target(self, name: str, options: dict[str, object]) -> list[Setting]:
        return self._connection.call(NodeStorage.apply_target, name, options)

    @override
    def read_target(self, name: str) -> dict[str, object]:
        return self._connection.call(NodeStorage.read_target, name)

    @override
    def release_target(self, name: str) -> None:
        with contextlib.suppress(LauncherLostError):
            self._connection.call(NodeStorage.release_target, name)

    @override
    def drive_report(self, name: str, drive: int) -> Report:
        return self._connection.call(NodeStorage.drive_report, name, drive)

    @override
    def reset_drive_report(self, name: str, drive: int) -> None:
        self._connection.call(NodeStorage.reset_drive_report, name, drive)

    @override
    def make_scratch(self, directory: str) -> str:
        return self._connection.call(NodeStorage.make_scratch, directory)

    @override
    def write_mark(self, scratch: str, token: str) -> None:
        self._connection.call(NodeStorage.write_mark, scratch, token)

    @override
    def remove_scratch(self, directory: str) -> None:
        with contextlib.suppress(LauncherLostError):
            self._connection.call(NodeStorage.remove_scratch, directory)

    @override
    def check_workload(self, workload: WorkloadOfNode) -> tuple[NodeLack, ...]:
        return self._connection.call(NodeStorage.check_workload, workload)

    @override
    def prepare_files(
        self, workload: WorkloadOfNode, directory: str, slots: int, seed: int
    ) -> list[str]:
        return self._connection.call(NodeStorage.prepare_files, workload, directory, slots, seed)

    @override
    def lacking_files(self, wanted: FilesWanted) -> FilesLacking:
        return self._connection.call(NodeStorage.lacking_files, wanted)

    @override
    def write_file(self, folder: str, name: str, offset: int, data: bytes) -> None:
        self._connection.call(NodeStorage.write_file, folder, name, offset, data)

    @override
    def finish_file(self, folder: str, name: str) -> bool:
        return self._connection.call(NodeStorage.finish_file, folder, name)
