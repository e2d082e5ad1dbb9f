"""Target `raid`: image files as one btrfs array of the kernel: whole, degraded or rebuilding.

image files -> loop devices -> btrfs with `-d raidN -m raidN` -> mount. The state is a setting that
can change on the prepared target: data sets are written to the whole array, then a drive is
removed, or a new drive is filled while jobs run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.errors import HeadraceError, MissingError, Problem, UnsupportedLevelError, as_word
from headrace.raid import RaidLevel, check_drives
from headrace.site import Site
from headrace.system import filesystems, requirements
from headrace.system.arrays import REDUNDANT, MountedArray
from headrace.system.owned import make_directories, make_file
from headrace.system.storage import free_bytes, storage_of
from headrace.targets import (
    Location,
    ModelledStorage,
    Setting,
    TargetContext,
    TargetOptions,
)
from headrace.targets.local import LocalTarget, of_node
from headrace.targets.queue_settings import NAMES, QueueSettings
from headrace.targets.releasing import release_all
from headrace.units import MOST_QUEUED, Bytes, format_bytes

State = Literal["whole", "degraded", "rebuilding"]


class KernelRaidOptions(TargetOptions):
    """`[target.NAME]` with `kind = "raid"`."""

    path_fields: ClassVar[tuple[str, ...]] = ("folder",)

    level: RaidLevel = Field(description="RAID level")
    drives: int = Field(2, ge=2, le=16, description="how many drives")
    size: Bytes = Field(
        1 << 30, ge=filesystems.SMALLEST_BYTES["btrfs"], description="bytes of each drive"
    )
    folder: str | None = Field(
        None,
        description=(
            "a directory for the image files of the drives; one of Headrace's own when not given"
        ),
    )
    state: State | None = Field(
        None,
        description=(
            "whole; one drive gone (degraded); a new one being filled while jobs run (rebuilding)"
        ),
    )
    mount: tuple[str, ...] = Field((), description="mount options")
    scheduler: str | None = Field(None, description="I/O scheduler of the drives")
    queue_depth: int | None = Field(
        None, ge=1, le=MOST_QUEUED, description="requests that each drive takes at once"
    )
    read_ahead: Bytes | None = Field(None, description="read-ahead of the file system")

    @model_validator(mode="after")
    def _possible(self) -> KernelRaidOptions:
        check_drives(self.level, self.drives)
        return self


class KernelRaid(LocalTarget):
    """An array that Headrace creates. Needs root."""

    kind: ClassVar[str] = "raid"
    Options: ClassVar[type[TargetOptions]] = KernelRaidOptions
    settings: ClassVar[frozenset[str]] = NAMES | {"state"}

    options: KernelRaidOptions

    def __init__(self, name: str, options: Any) -> None:
        super().__init__(name, options)
        self._array: MountedArray | None = None
        self._queue: QueueSettings | None = None
        self._files: list[Any] = []
        self._folder = Path()

    def on_each_node(self) -> bool:
        return True

    def _parent(self) -> Path | None:
        folder = self.options.folder
        return Path(of_node(folder, 0)).expanduser().absolute() if folder else None

    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        needed_by = f"target {self.name}"
        if os.geteuid() != 0:
            return [Problem("making an array needs root", needed_by, "run as root")]
        problems = [
            problem
            for program in ("btrfs", "mkfs.btrfs", "mount")
            if (problem := requirements.missing_program(program, needed_by)) is not None
        ]
        parent = self._parent()
        if parent is not None and not parent.is_dir():
            problems.append(
                Problem(
                    f"the directory {parent} is missing", needed_by, f"mkdir -p {as_word(parent)}"
                )
            )
        elif parent is not None and free_bytes(parent) < (
            takes := (self.options.drives + 1) * self.options.size
        ):
            what = (
                f"{parent} has {format_bytes(free_bytes(parent))} free, the drives take "
                f"{format_bytes(takes)}"
            )
            problems.append(Problem(what, needed_by, "free some space, or give a smaller size"))
        if reason := self.unsupported():
            level = ("level", str(self.options.level))
            without = "its trials are recorded as unsupported"
            problems.append(Problem(reason, needed_by, "name another level", False, without, level))
        return problems

    def unsupported(self) -> str | None:
        if self.options.state not in (None, "whole") and self.options.level not in REDUNDANT:
            return f"RAID {self.options.level} without one of its drives holds nothing"
        return filesystems.why_not("btrfs")

    def on_local_drive(self, number: int) -> KernelRaid | None:
        """One array of images per node."""
        folder = self.options.folder and of_node(self.options.folder, number)
        options = self.options.model_copy(update={"folder": folder} if folder else {})
        return KernelRaid(self.name if number == 0 else f"{self.name}-{number}", options)

    def free_bytes(self) -> int | None:
        drives, level = self.options.drives, self.options.level
        data = {0: drives, 1: drives / 2, 5: drives - 1, 6: drives - 2, 10: drives / 2}[level]
        return int(filesystems.usable_bytes("btrfs", self.options.size) * data)

    def prepare(self, context: TargetContext) -> Location:
        if reason := self.unsupported():
            raise UnsupportedLevelError(reason)
        if problems := [problem for problem in self.check(context.forced_devices) if problem.fatal]:
            raise MissingError(problems[0].what, hint=problems[0].remedy)
        try:
            return self._prepare(context)
        except OSError as error:
            self.release(context)
            raise HeadraceError(f"{error.filename or self._folder}: {error.strerror}") from error
        except BaseException:
            self.release(context)
            raise

    def _prepare(self, context: TargetContext) -> Location:
        options, journal = self.options, context.journal
        self._folder = (self._parent() or context.work_dir).resolve()
        directory = context.work_dir.resolve() / f"mount-{os.urandom(4).hex()}"
        self._files += make_directories(journal, directory)
        images = [self._image(context) for _ in range(options.drives)]
        self._array = MountedArray(journal, options.level, images, directory, options.mount)
        self._array.make(())
        storage = storage_of(directory)
        self._queue = QueueSettings(context, storage.directory)
        return Location(
            own_device=True,
            directory=directory,
            device_names=tuple(device.name for device in self._array.devices),
            description={
                **storage.as_dict(),
                "raid": {"level": options.level, "drives": options.drives, "by": "btrfs"},
                "drive_bytes": options.size,
            },
        )

    def _image(self, context: TargetContext) -> Path:
        path = self._folder / f"headrace-drive-{os.urandom(4).hex()}.img"
        self._files.append(make_file(context.journal, path, self.options.size))
        return path

    def apply(self, options: Any, context: TargetContext) -> list[Setting]:
        if self._array is None or self._queue is None:
            return []
        found: list[Setting] = []
        if options.state is not None:
            before = self._array.state()
            reason = ""
            try:
                self._bring_to(options.state, context)
            except HeadraceError as error:
                reason = error.message
            after = self._array.state()
            if not reason and after != options.state:
                reason = (
                    f"asked for {options.state}, the array is {after}: a small one is rebuilt "
                    "at once"
                )
            found.append(
                Setting("state", options.state, before, after, applied=not reason, reason=reason)
            )
        return [*found, *self._queue.apply(options)]

    def _bring_to(self, state: str, context: TargetContext) -> None:
        array = self._array
        if (
            array is None
            or array.state() == state == "whole"
            or array.state() == state == "degraded"
        ):
            return
        if state not in ("whole", "degraded", "rebuilding"):
            raise UnsupportedLevelError(f"an array is whole, degraded or rebuilding, not {state}")
        if array.state() == "rebuilding":
            array.wait_rebuilt()
        if self._queue is not None:
            self._queue.restore()
        if state in ("degraded", "rebuilding") and array.state() == "whole":
            array.degrade()
        if state in ("whole", "rebuilding") and array.state() == "degraded":
            array.rebuild(self._image(context))
            if state == "whole":
                array.wait_rebuilt()
        self._queue = QueueSettings(context, array.directory)

    def read_settings(self) -> dict[str, object]:
        if self._array is None or self._queue is None:
            return {}
        return {**self._queue.read(), "state": self._array.state()}

    def model(self, site: Site | None) -> ModelledStorage:
        """Raise HeadraceError: image files have no model; a RAID of catalog drives has one."""
        raise HeadraceError(
            f"target {self.name}: an array of image files has no model",
            hint='kind = "block" with drive = "NAME" and raid = { level, drives } is simulated',
        )

    def release(self, context: TargetContext) -> None:
        release_all(
            self.name,
            (
                self._restore_queue,
                self._release_array,
                lambda: context.journal.put_back(self._files),
            ),
        )

    def _restore_queue(self) -> None:
        if self._queue is not None:
            self._queue.restore()
            self._queue = None

    def _release_array(self) -> None:
        if self._array is not None:
            self._array.release()
            self._array = None
