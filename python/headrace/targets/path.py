"""Target `path`: an existing directory, wherever it is mounted.

The record has its mount, devices, file system and server.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from headrace.errors import MOUNT_AGAIN, MOUNT_GONE, HeadraceError, Problem, as_word
from headrace.system.claims import Place
from headrace.system.mounts import IN_MEMORY, mount_of
from headrace.system.owned import make_directories, try_writing
from headrace.system.storage import free_bytes, free_files, storage_of
from headrace.system.striping import stripe
from headrace.targets import Location, Setting, TargetContext, TargetOptions
from headrace.targets.local import LocalTarget, of_node
from headrace.targets.queue_settings import NAMES, QueueSettings
from headrace.targets.releasing import release_all
from headrace.targets.server_options import ServerOptions
from headrace.units import MOST_QUEUED, Bytes

if TYPE_CHECKING:
    from headrace.system.journal import JournalEntry


class PathOptions(ServerOptions):
    """`[target.NAME]` with `kind = "path"`."""

    path_fields: ClassVar[tuple[str, ...]] = ("path",)

    path: str = Field(
        min_length=1,
        description=(
            "a directory; data and scratch files of jobs go into a folder of their own in it"
        ),
    )
    on: Literal["node"] | None = Field(
        None,
        description=(
            "node: a folder of each node's own; {node} in the path stands for its number. One "
            "that all nodes share when not given"
        ),
    )
    create: bool = Field(
        False,
        description="make the directory when it is missing; removed after the study when empty",
    )
    scheduler: str | None = Field(
        None, description="I/O scheduler of the disks behind it (needs root)"
    )
    queue_depth: int | None = Field(
        None, ge=1, le=MOST_QUEUED, description="requests that each disk takes at once (needs root)"
    )
    read_ahead: Bytes | None = Field(None, description="read-ahead of the file system (needs root)")

    stripe_count: int | None = Field(
        None,
        ge=0,
        description=(
            "on Lustre and BeeGFS: storage targets that a new file is striped over; Lustre: 0 "
            "is all"
        ),
    )
    stripe_size: Bytes | None = Field(
        None,
        ge=64 << 10,
        multiple_of=64 << 10,
        description="on Lustre and BeeGFS: bytes of a stripe of a new file",
    )

    @field_validator("path")
    @classmethod
    def _no_url(cls, value: str) -> str:
        if "://" in value:
            raise ValueError(
                "a URL, not a directory: name the directory where it is mounted; servers are "
                'kind = "xrootd", "s3", "hdfs" …'
            )
        return value

    def why_no_servers(self) -> str | None:
        """A folder of each node's own has none."""
        return 'with on = "node" the storage is that of the nodes' if self.on == "node" else None

    @property
    def directory(self) -> Path:
        """The directory as an absolute path; `~` is the user's home."""
        path = of_node(self.path, 0) if self.on == "node" else self.path
        return Path(path).expanduser().absolute()

    def memory_filesystem(self) -> str | None:
        """Return the type of a file system that has files in memory only, else None."""
        try:
            found = mount_of(self.directory.resolve()).filesystem
        except (OSError, HeadraceError):
            return None
        return found if found in IN_MEMORY else None


def root_problems(options: Any, name: str) -> list[Problem]:
    """Return one problem per requested setting that needs root."""
    if os.geteuid() == 0:
        return []
    return [
        Problem(
            f"setting {field} needs root",
            f"target {name}",
            "run as root",
            fatal=False,
            without="its trials are recorded as unsupported",
            level=(field, str(getattr(options, field))),
        )
        for field in sorted(NAMES)
        if getattr(options, field) is not None
    ]


class PathTarget(LocalTarget):
    """A directory on any file system. Works without root."""

    kind: ClassVar[str] = "path"
    Options: ClassVar[type[TargetOptions]] = PathOptions
    settings: ClassVar[frozenset[str]] = NAMES

    def __init__(self, name: str, options: Any) -> None:
        super().__init__(name, options)
        self._directory: Path = options.directory
        self._made: list[JournalEntry] = []
        self._queue: QueueSettings | None = None

    def _nearest(self) -> Path:
        """Return the directory, or its nearest existing parent."""
        level = self._directory
        while not level.exists() and level != level.parent:
            level = level.parent
        return level

    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        return self.check_storage() or root_problems(self.options, self.name)

    def check_storage(self) -> list[Problem]:
        needed_by = f"target {self.name}"

        def lacks(what: str, remedy: str) -> list[Problem]:
            return [Problem(what, needed_by, remedy)]

        directory = self._directory
        try:
            nearest = self._nearest()
            if nearest != directory and not self.options.create:
                return lacks(
                    f"the directory {directory} is missing",
                    f"mkdir -p {as_word(directory)}, or create = true",
                )
            if not nearest.is_dir():
                return lacks(f"{nearest} is not a directory", "name a directory by path")
            if os.statvfs(nearest).f_flag & os.ST_RDONLY:
                return lacks(
                    f"{nearest} is mounted read-only", "mount it so that it can be written to"
                )
        except OSError as error:
            remedy = "give yourself permission to reach it"
            return lacks(
                f"{directory}: {error.strerror}",
                MOUNT_AGAIN if error.errno in MOUNT_GONE else remedy,
            )
        if not os.access(nearest, os.W_OK | os.X_OK):
            return lacks(
                f"no permission to write to {nearest}",
                "give yourself permission, or run as its owner or as root",
            )
        if free_bytes(nearest) == 0:
            return lacks(f"{nearest} is full", "free some space on it")
        if free_files(nearest) == 0:
            return lacks(f"{nearest} has no inode left for a file", "remove some files from it")
        return []

    def on_each_node(self) -> bool:
        return self.options.on == "node"

    def on_local_drive(self, number: int) -> PathTarget | None:
        """One folder per node, with `on = "node"`."""
        if not self.on_each_node():
            return None
        path = of_node(self.options.path, number)
        name = self.name if number == 0 else f"{self.name}-{number}"
        return PathTarget(name, self.options.model_copy(update={"path": path}))

    def claims(self) -> list[Place]:
        return [Place(self._directory, f"the folder of target {self.name}")]

    def free_bytes(self) -> int | None:
        try:
            return free_bytes(self._nearest())
        except OSError:
            return None

    def prepare(self, context: TargetContext) -> Location:
        problems = [problem for problem in self.check(context.forced_devices) if problem.fatal]
        if problems:
            raise HeadraceError(problems[0].what, hint=problems[0].remedy)
        self._made = make_directories(context.journal, self._directory)
        try:
            try_writing(context.journal, self._directory)
            storage = storage_of(self._striped(context))
            self._queue = QueueSettings(context, storage.directory)
        except OSError as error:
            self.release(context)
            raise HeadraceError(
                f"{self._directory} cannot be written to: {error.strerror}"
            ) from error
        except HeadraceError:
            self.release(context)
            raise
        return Location(
            directory=storage.directory,
            device_names=storage.device_names,
            network=storage.network is not None,
            description=storage.as_dict(),
            users_own=True,
        )

    def _striped(self, context: TargetContext) -> Path:
        """Return the directory, or a new one in it with the requested striping: a layout applies
        only to files created after it."""
        count, size = self.options.stripe_count, self.options.stripe_size
        if count is None and size is None:
            return self._directory
        found = storage_of(self._directory)
        kind = found.network.kind if found.network is not None else found.mount.filesystem
        words = [
            f"{name}{value}"
            for name, value in (("count-", count), ("size-", size))
            if value is not None
        ]
        directory = self._directory / f"headrace-stripe-{'-'.join(words)}"
        self._made += make_directories(context.journal, directory)
        stripe(context.journal, kind, directory, count, size)
        return directory

    def apply(self, options: Any, context: TargetContext) -> list[Setting]:
        return self._queue.apply(options) if self._queue is not None else []

    def read_settings(self) -> dict[str, object]:
        return self._queue.read() if self._queue is not None else {}

    def release(self, context: TargetContext) -> None:
        release_all(self.name, (self._restore_queue, lambda: context.journal.put_back(self._made)))

    def _restore_queue(self) -> None:
        if self._queue is not None:
            self._queue.restore()
            self._queue = None
