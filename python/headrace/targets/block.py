"""Target `block`: a block device, an image file or an emulated catalog drive that Headrace formats.

Set-up, with each step in the undo journal before it is taken: image file -> loop device (direct
I/O) -> file system -> mount. `release` undoes the steps in reverse order and blanks a device that
it formatted.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from headrace.errors import (
    HeadraceError,
    MissingError,
    Problem,
    RefusedError,
    UnsupportedLevelError,
    as_word,
)
from headrace.labels import ITSELF
from headrace.raid import MOST_CHUNK_BYTES, SMALLEST_CHUNK_BYTES, RaidLevel, check_drives
from headrace.site import RaidTuning
from headrace.system import filesystems, loops, requirements, signatures
from headrace.system.claims import Place
from headrace.system.emulator import queue_shape
from headrace.system.journal import Journal, JournalEntry
from headrace.system.mounts import mount, mount_of
from headrace.system.owned import make_directories, make_file
from headrace.system.storage import free_bytes, storage_of
from headrace.targets import Location, Setting, TargetContext, TargetOptions
from headrace.targets.emulated import EmulatedMedium
from headrace.targets.local import LocalTarget, of_node
from headrace.targets.queue_settings import NAMES, QueueSettings
from headrace.targets.releasing import release_all
from headrace.targets.scenario import keeps_data
from headrace.units import MOST_DRIVES, MOST_QUEUED, Bytes, format_bytes

Words = str | list[str]
"""Options as a study states them, for its schema: the loader divides text."""


def _words(value: object) -> object:
    return shlex.split(value) if isinstance(value, str) else value


def _commas(value: object) -> object:
    options = [value] if isinstance(value, str) else value
    if not isinstance(options, list):
        return options
    return [part for option in options for part in str(option).split(",") if part]  # pyright: ignore[reportUnknownVariableType]


class Raid(RaidTuning):
    """Several drives as one."""

    level: RaidLevel = Field(description="RAID level")
    drives: int = Field(2, ge=2, le=MOST_DRIVES, description="how many drives of the one kind")
    chunk: Bytes = Field(
        65536,
        ge=SMALLEST_CHUNK_BYTES,
        le=MOST_CHUNK_BYTES,
        multiple_of=SMALLEST_CHUNK_BYTES,
        description="bytes on one drive before the next takes over",
    )
    by: Literal["model", "kernel"] = Field(
        "model",
        description=(
            "measured: one emulated device that is the RAID, or one a drive and the kernel's "
            "own RAID (btrfs)"
        ),
    )

    @model_validator(mode="after")
    def _possible(self) -> Raid:
        check_drives(self.level, self.drives)
        self.check_tuning(self.level)
        if self.by == "kernel" and self.is_given:
            raise ValueError(
                "stripe_cache, bitmap and controller are simulated or emulated: the kernel's RAID "
                'is btrfs\'s, which has none of them; leave out by = "kernel"'
            )
        if self.by == "kernel" and self.level not in (0, 1, 10):
            raise ValueError(
                f"the kernel's RAID is btrfs's, which has 0, 1 and 10 (given {self.level})"
            )
        return self


class BlockOptions(TargetOptions):
    """`[target.NAME]` with `kind = "block"`."""

    path_fields: ClassVar[tuple[str, ...]] = ("image",)

    device: str | None = Field(
        None, description="a block device, blank or named by --force-device too"
    )
    image: str | None = Field(
        None,
        description="a file that becomes a loop device; made of `size` bytes when it is missing",
    )
    drive: Annotated[str | None, ITSELF] = Field(
        None, description="a drive of the catalog: emulated when measured, modelled when simulated"
    )
    size: Bytes | None = Field(
        None,
        gt=0,
        description=(
            "bytes of the image or of the filesystem at the drive's front; when not given, 2 GiB "
            "of an emulated drive, and the whole drive in a simulation"
        ),
    )
    memory: Bytes | None = Field(
        None,
        gt=0,
        description="emulated: data that is kept in memory at most; all of its size when not given",
    )
    raid: Raid | None = Field(None, description="several such drives as one")
    filesystem: Annotated[Literal["ext3", "ext4", "xfs", "btrfs"], ITSELF] = Field(
        "ext4", description="file system that is made on it"
    )
    mkfs: Annotated[tuple[str, ...], BeforeValidator(_words, json_schema_input_type=Words)] = Field(
        (),
        description=(
            "further options of mkfs, as list or text; with -K (of ext3 and ext4 also -E "
            "nodiscard) an SSD keeps its state"
        ),
    )
    mount: Annotated[tuple[str, ...], BeforeValidator(_commas, json_schema_input_type=Words)] = (
        Field(
            (),
            description=(
                "mount options, as list or text; "
                "simulated: access times, barrier, commit and discard"
            ),
        )
    )
    scheduler: str | None = Field(
        None, description="I/O scheduler; the kernel's default when not given"
    )
    queue_depth: int | None = Field(
        None, ge=1, le=MOST_QUEUED, description="requests that the device takes at once"
    )
    read_ahead: Bytes | None = Field(None, description="read-ahead of the file system")

    @model_validator(mode="after")
    def _one_medium(self) -> BlockOptions:
        given = [name for name in ("device", "image", "drive") if getattr(self, name) is not None]
        if len(given) != 1:
            what = f"given: {', '.join(given)}" if given else "none is given"
            raise ValueError(f"name one of device, image and drive ({what})")
        if self.device is not None and self.size is not None:
            raise ValueError("a device has its own size; size is for image and drive")
        if self.memory is not None and self.drive is None:
            raise ValueError("memory is what an emulated drive's data takes: give drive")
        if self.raid is not None and self.raid.by == "kernel" and self.filesystem != "btrfs":
            raise ValueError(
                f'raid by the kernel is btrfs\'s: filesystem = "btrfs" (given {self.filesystem})'
            )
        if reason := filesystems.unsafe_options(self.mkfs, self.mount):
            raise ValueError(reason)
        return self

    @property
    def medium(self) -> Path:
        """The device or image file as an absolute path. An image is relative to the current
        directory."""
        return Path(of_node(self.device or self.image or "", 0)).expanduser().absolute()


class BlockTarget(LocalTarget):
    """A file system that Headrace creates. Needs root."""

    kind: ClassVar[str] = "block"
    Options: ClassVar[type[TargetOptions]] = BlockOptions
    settings: ClassVar[frozenset[str]] = NAMES

    def __init__(self, name: str, options: Any) -> None:
        super().__init__(name, options)
        self._entries: list[JournalEntry] = []
        self._queue: QueueSettings | None = None
        self._emulated: EmulatedMedium | None = (
            EmulatedMedium(name, options) if options.drive is not None else None
        )

    def on_each_node(self) -> bool:
        return True

    def claims(self) -> list[Place]:
        if self._emulated is not None:
            return []
        return [Place(self.options.medium, f"the medium of target {self.name}")]

    def _objection(self, forced_devices: frozenset[str]) -> HeadraceError | None:
        """Return why the medium cannot be used or must not be overwritten; None if it may be."""
        if self._emulated is not None:
            return None  # attached blank
        medium = self.options.medium.resolve()
        try:
            if found := self._medium_problem():
                return MissingError(found[0], hint=found[1])
            if not medium.exists():
                return None
            if users := signatures.holders(medium):
                return RefusedError(
                    f"{medium} is in use: {'; '.join(users)}", hint="name one that nobody uses"
                )
            if programs := signatures.opened_by(medium):
                return RefusedError(
                    f"{medium} is in use: opened by {', '.join(programs)}",
                    hint="end them, or name one that nobody uses",
                )
            forced = {Path(name).resolve() for name in forced_devices}
            if medium not in forced and (holds := signatures.contents(medium)):
                remedy = f"if that may be lost, add --force-device {self.options.medium}"
                return RefusedError(f"{medium} is not empty: it holds {holds}", hint=remedy)
        except OSError as error:
            return MissingError(
                f"{medium}: {error.strerror}", hint="give yourself permission to reach it"
            )
        return None

    def _medium_problem(self) -> tuple[str, str] | None:
        """Return what is wrong with the device or image itself, and the remedy."""
        options, medium = self.options, self.options.medium
        if options.device is not None:
            if not medium.exists():
                return f"the device {medium} is missing", "name a block device: lsblk lists them"
            if not medium.is_block_device():
                return f"{medium} is not a block device", "name a block device, or a file by image"
        elif medium.exists():
            if not medium.is_file():
                return f"{medium} is not a regular file", "name a file by image"
            if options.size is not None and options.size != medium.stat().st_size:
                given, there = format_bytes(options.size), format_bytes(medium.stat().st_size)
                return (
                    f"{medium} is there with {there}, the study says {given}",
                    "leave out size, or name another image",
                )
        elif options.size is None:
            return (
                f"the image {medium} is missing and no size is given",
                'give its size: size = "4 GiB"',
            )
        elif not medium.parent.is_dir():
            return (
                f"the directory {medium.parent} for the image is missing",
                f"mkdir -p {as_word(medium.parent)}",
            )
        elif free_bytes(medium.parent) < options.size:
            free = format_bytes(free_bytes(medium.parent))
            return (
                f"{medium.parent} has {free} free, the image takes {format_bytes(options.size)}",
                "free some space",
            )
        return self._too_small(str(medium))

    def _too_small(self, medium: str) -> tuple[str, str] | None:
        size, least = self._size(), filesystems.SMALLEST_BYTES[self.options.filesystem]
        if size is not None and size < least:
            return (
                f"{medium} of {format_bytes(size)} is too small for {self.options.filesystem}",
                f"give {format_bytes(least)} at least",
            )
        return None

    def _size(self) -> int | None:
        if self._emulated is not None:
            return self._emulated.size_bytes
        try:
            return signatures.device_size(self.options.medium)
        except OSError:
            return self.options.size

    def _machine_problems(self) -> list[Problem]:
        """Return what the machine lacks, independent of the medium's contents."""
        needed_by = f"target {self.name}"
        if self._emulated is not None:
            if problems := self._emulated.problems():
                return problems
            if small := self._too_small("an emulated drive"):
                return [Problem(small[0], needed_by, small[1])]
        if os.geteuid() != 0:
            remedy = "run as root, or use a target of kind path"
            return [Problem("formatting and mounting needs root", needed_by, remedy)]
        problems = [
            problem
            for program in ("mount", "blkid", "setpriv")
            if (problem := requirements.missing_program(program, needed_by)) is not None
        ]
        if self.options.image is not None and not Path("/dev/loop-control").exists():
            problems.append(Problem("this kernel has no loop devices", needed_by, "modprobe loop"))
        return problems

    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        needed_by = f"target {self.name}"
        problems = self._machine_problems()
        if reason := self.unsupported():
            kind = self.options.filesystem
            lacks_program = (
                requirements.missing_program(f"mkfs.{kind}", needed_by) is not None
                and self.options.raid is None
            )
            problems.append(
                Problem(
                    reason,
                    needed_by,
                    requirements.remedy(f"mkfs.{kind}") if lacks_program else "name another level",
                    fatal=False,
                    without="its trials are recorded as unsupported",
                    level=("raid", str(self.options.raid.level))
                    if self.options.raid
                    else ("filesystem", kind),
                )
            )
        elif not problems and (objection := self._objection(forced_devices)):
            problems.append(Problem(objection.message, needed_by, objection.hint or ""))
        return problems

    def unsupported(self) -> str | None:
        if self.options.drive is None and self.options.raid is not None:
            return (
                "RAID over a device or image of one's own is not available; assemble it and "
                "name the array as device"
            )
        return filesystems.why_not(self.options.filesystem)

    def on_local_drive(self, number: int) -> BlockTarget | None:
        """One image or emulated drive per node; a device that the user names cannot be split.

        `{node}` in a device or image stands for the number of the node.
        """
        options = self.options
        given: str | None = options.device or options.image
        field = "device" if options.device is not None else "image"
        own = given is not None and of_node(given, number) != given
        if options.device is not None and not own:
            return None
        if given is not None:
            path = Path(of_node(given, number))
            if not own and number > 0:
                path = path.with_stem(f"{path.stem}-{number}")
            options = options.model_copy(update={field: str(path)})
        return BlockTarget(self.name if number == 0 else f"{self.name}-{number}", options)

    def free_bytes(self) -> int | None:
        size = self._size()
        if size is None:
            return None
        usable = filesystems.usable_bytes(self.options.filesystem, size)
        return usable if self.options.memory is None else min(usable, self.options.memory)

    def modelled_bytes(self) -> int | None:
        return self.options.size if self._emulated is not None else None

    def default_scheduler(self) -> str | None:
        if self._emulated is None:
            return None
        return queue_shape(self._emulated.storages()[0]).scheduler

    def discards(self) -> bool:
        return not keeps_data(self.options.mkfs)

    def memory_bytes(self) -> int:
        """Return the most memory that its emulated drives take."""
        return 0 if self._emulated is None else self._emulated.memory_bytes()

    def prepare(self, context: TargetContext) -> Location:
        if reason := self.unsupported():
            raise UnsupportedLevelError(reason)
        if problems := [problem for problem in self._machine_problems() if problem.fatal]:
            raise MissingError(f"target {self.name}: {problems[0].what}", hint=problems[0].remedy)
        if objection := self._objection(context.forced_devices):
            raise type(objection)(f"target {self.name}: {objection.message}", hint=objection.hint)
        try:
            return self._prepare(context)
        except OSError as error:
            self.release(context)
            raise HeadraceError(
                f"target {self.name}: {error.filename or self.options.medium}: {error.strerror}"
            ) from error
        except BaseException:
            self.release(context)
            raise

    def _medium(self, context: TargetContext) -> tuple[list[Path], dict[str, object]]:
        """Set up what holds the data; return its devices, and facts about it."""
        options, journal = self.options, context.journal
        medium: Path = options.medium
        facts: dict[str, object] = {"medium": str(medium), "mkfs_options": list(options.mkfs)}
        if self._emulated is not None:
            devices = [made.device for made in self._emulated.attach(context)]
            return devices, facts | self._emulated.description()
        if options.image is None:
            return [medium.resolve()], facts
        if not medium.exists():
            self._entries.append(make_file(journal, medium, options.size))
        loop = loops.attach(journal, medium)
        self._entries.append(loop.entry)
        return [loop.device], facts | {
            "loop_direct_io": loop.direct_io,
            "image_storage": storage_of(medium.parent).as_dict(),
        }

    def _mount(self, journal: Journal, device: Path, directory: Path) -> None:
        """Mount the filesystem. Raises UnsupportedLevelError if not as requested."""
        options = self.options
        try:
            self._entries.append(
                mount(journal, str(device), directory, options.filesystem, options.mount)
            )
        except HeadraceError as error:
            if options.mount:
                words = ",".join(options.mount)
                raise UnsupportedLevelError(
                    f"{options.filesystem} does not mount with {words}: {error.message}"
                ) from error
            raise
        mounted = mount_of(directory)
        if mounted.filesystem != options.filesystem:
            raise UnsupportedLevelError(
                f"asked for {options.filesystem}, the kernel mounted {mounted.filesystem}"
            )
        if reason := filesystems.not_in_force(options.mount, mounted):
            raise UnsupportedLevelError(f"mount options: {reason}")

    def _prepare(self, context: TargetContext) -> Location:
        options, journal = self.options, context.journal
        (device, *others), facts = self._medium(context)
        # A new name: files of an earlier mount cannot be hidden below it.
        directory = context.work_dir.resolve() / f"mount-{os.urandom(4).hex()}"
        self._entries.extend(make_directories(journal, directory))
        self._entries.append(
            filesystems.make_filesystem(
                journal,
                device,
                options.filesystem,
                (*self._profiles(), *options.mkfs),
                directory,
                others=others,
            )
        )
        self._mount(journal, device, directory)
        storage = storage_of(directory)
        self._queue = QueueSettings(context, storage.directory)
        emulated = () if self._emulated is None else self._emulated.devices

        def verify_after_crash() -> str:
            result = journal.undo(self._entries.pop())
            if not result.done:
                raise HeadraceError(f"target {self.name}: {result.text}")
            found = filesystems.after_crash(journal, device, options.filesystem, directory)
            self._entries.append(
                mount(journal, str(device), directory, options.filesystem, options.mount)
            )
            return found

        return Location(
            own_device=True,
            directory=directory,
            device_names=storage.device_names,
            provenance="emulated" if emulated else "measured",
            description={**storage.as_dict(), **facts},
            emulated=emulated,
            verify_after_crash=verify_after_crash,
        )

    def _profiles(self) -> tuple[str, ...]:
        """Return the mkfs.btrfs options of a RAID by the kernel."""
        raid = self.options.raid
        return (
            ()
            if raid is None or raid.by == "model"
            else ("-d", f"raid{raid.level}", "-m", f"raid{raid.level}")
        )

    def apply(self, options: Any, context: TargetContext) -> list[Setting]:
        return self._queue.apply(options) if self._queue is not None else []

    def read_settings(self) -> dict[str, object]:
        return self._queue.read() if self._queue is not None else {}

    def release(self, context: TargetContext) -> None:
        release_all(
            self.name,
            (
                self._restore_queue,
                lambda: context.journal.put_back(self._entries),
                lambda: None if self._emulated is None else self._emulated.release(context),
            ),
        )

    def _restore_queue(self) -> None:
        if self._queue is not None:
            self._queue.restore()
            self._queue = None
