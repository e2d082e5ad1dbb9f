"""Workload `metadata`: mdtest's phases (create, stat, read, rename, remove).

Each slot is one process of `clients` clients (crates/metadata). The clients of all slots on all
nodes go through the phases in step. One trial is one iteration of mdtest. On mounted storage, the
process is a separate program that makes system calls. On storage that is reached by URL, it is the
job itself, whose clients call the protocol's library (`protocols/`).
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from headrace._core import metadata_json
from headrace.errors import HeadraceError, MissingError, Problem
from headrace.protocols import client_of, remote_storage
from headrace.protocols.causes import cause_of
from headrace.scenario import Step
from headrace.site import Site
from headrace.system import children
from headrace.system.own_programs import own_program
from headrace.system.program_pages import hold_program
from headrace.units import Bytes, Seconds, format_bytes
from headrace.workloads import (
    JobInput,
    JobOutput,
    JobResults,
    ModelledJob,
    Workload,
    WorkloadOptions,
)
from headrace.workloads.mdtest.phases import merge_phases

PROGRAM = "headrace-metadata"
MOST_CLIENTS = 4096
"""Largest number of clients in step (crates/metadata, `MOST_CLIENTS`)."""
_MOST_DIRECTORIES = 1_000_000
_INODE_BYTES = 4096
"""Minimum size of an item, for the estimate: a directory is one block on most filesystems."""

_FILES = ("file_creation", "file_stat", "file_read", "file_removal")
_DIRECTORIES = ("directory_creation", "directory_stat", "directory_rename", "directory_removal")

Phases = Literal["create", "stat", "read", "rename", "remove"]


class MetadataOptions(WorkloadOptions):
    """Fields of `[workload.NAME]` with `kind = "metadata"`; terms are mdtest's, its option in
    brackets.
    """

    clients: int = Field(
        1,
        ge=1,
        le=MOST_CLIENTS,
        description="clients (mdtest's tasks) in each slot: slots x nodes x clients in all",
    )
    items: int = Field(
        1000,
        ge=1,
        le=100_000_000,
        description="files, and as many directories, of each client (-n)",
    )
    of: Literal["files", "directories", "both"] = Field(
        "both", description="files (-F), directories (-D), or both"
    )
    phases: tuple[Phases, ...] = Field(
        ("create", "stat", "read", "rename", "remove"),
        description="create and remove always belong to it; read is of files, rename of "
        "directories (-C, -T, -E, -r)",
    )
    depth: int = Field(0, ge=0, description="levels of directories below the top one (-z)")
    branching_factor: int = Field(1, ge=1, description="directories in each directory (-b)")
    leaf_only: bool = Field(False, description="items only in the deepest directories (-L)")
    unique_directories: bool = Field(
        False, description="a tree of its own for each client (-u), else one that all share"
    )
    stride: int = Field(
        0,
        ge=0,
        description="stat, read and remove take what was made by the client so many further on "
        "each time (-N): past the own node's cache",
    )
    write_bytes: Bytes = Field(
        0, description="bytes written to each file after it is made (-w)", le=1 << 30
    )
    read_bytes: Bytes | None = Field(
        None, description="bytes read of each file (-e); as many as written when not given"
    )
    sync: bool = Field(False, description="fsync of each file after it was written (-y)")
    verify: bool = Field(False, description="compare what is read with what was written (-X)")
    patience: Seconds = Field(
        120.0, gt=0, description="how long clients wait for others that do not come to the start"
    )

    @model_validator(mode="after")
    def _possible(self) -> MetadataOptions:
        if self.directories_of_tree > _MOST_DIRECTORIES:
            raise ValueError(
                f"depth {self.depth} with branching_factor {self.branching_factor} makes more "
                f"than {_MOST_DIRECTORIES} directories"
            )
        if not {"create", "remove"} <= set(self.phases):
            raise ValueError(
                "phases must hold create and remove: nothing would be there to work on, or be "
                "left behind"
            )
        if len(set(self.phases)) < len(self.phases):
            raise ValueError(
                "a phase stands there twice; each is gone through once, in mdtest's order"
            )
        if (self.read_bytes or 0) > self.write_bytes:
            raise ValueError(
                f"read_bytes ({format_bytes(self.read_bytes or 0)}) is more than write_bytes "
                f"({format_bytes(self.write_bytes)})"
            )
        if self.of == "directories" and (self.write_bytes or self.read_bytes):
            raise ValueError("directories hold no bytes: write_bytes and read_bytes are of files")
        if self.of == "directories" and "read" in self.phases and "phases" in self.model_fields_set:
            raise ValueError("directories are not read: read is a phase of files")
        if self.of == "files" and "rename" in self.phases and "phases" in self.model_fields_set:
            raise ValueError("files are not renamed: rename is a phase of directories")
        return self

    @property
    def directories_of_tree(self) -> int:
        """Number of directories in one tree, or the maximum plus one when the tree is too large."""
        level = total = 1
        for _ in range(self.depth):
            level *= self.branching_factor
            total += level
            if total > _MOST_DIRECTORIES:
                return _MOST_DIRECTORIES + 1
        return total

    @property
    def phase_names(self) -> list[str]:
        """The clients' names of the phases that work on items."""
        kinds = {"files": _FILES, "directories": _DIRECTORIES, "both": (*_DIRECTORIES, *_FILES)}[
            self.of
        ]
        ending = {
            "create": "creation",
            "stat": "stat",
            "read": "read",
            "rename": "rename",
            "remove": "removal",
        }
        wanted = {ending[phase] for phase in self.phases}
        return [name for name in kinds if name.partition("_")[2] in wanted]


class Metadata(Workload):
    """One process of clients per job."""

    kind: ClassVar[str] = "metadata"
    Options: ClassVar[type[WorkloadOptions]] = MetadataOptions
    reads_urls: ClassVar[bool] = True
    loads_storage: ClassVar[bool] = True

    options: MetadataOptions

    @override
    def check(self) -> list[Problem]:
        """Return a problem when the clients' program is missing."""
        try:
            own_program(PROGRAM)
        except MissingError as error:
            return [Problem(error.message, f"workload {self.name}", error.hint or "")]
        return []

    def inodes(self, slots: int) -> int:
        """Return the largest number of files and directories on the target at one time."""
        options = self.options
        clients = slots * options.clients
        trees = clients if options.unique_directories else 1
        return clients * options.items + trees * options.directories_of_tree + 2

    @override
    def target_bytes(self, slots_max: int) -> int:
        """Return the size of the written files in whole blocks, plus one block per directory."""
        options = self.options
        blocks = -(-options.write_bytes // _INODE_BYTES) * _INODE_BYTES
        of_item = max(blocks, _INODE_BYTES if options.of != "files" else 0)
        trees = slots_max * options.clients if options.unique_directories else 1
        return slots_max * options.clients * options.items * of_item + trees * (
            options.directories_of_tree * _INODE_BYTES
        )

    @override
    def prepare_files(self, directory: Path, slots: int, seed: int) -> list[str]:
        """Make nothing. Raises HeadraceError when there are too many clients."""
        clients = slots * self.options.clients
        if clients > MOST_CLIENTS:
            raise HeadraceError(
                f"workload {self.name}: {clients} clients (slots x nodes x clients); at most "
                f"{MOST_CLIENTS} keep in step"
            )
        return []

    @override
    def check_room(self, directory: Path, slots: int) -> None:
        """Raise HeadraceError when the file system has too few free inodes."""
        place = directory if directory.exists() else directory.parent
        room = os.statvfs(place)
        needed = self.inodes(slots)
        # Filesystems that allocate inodes dynamically report a total of 0.
        if room.f_files and room.f_favail < needed:
            raise HeadraceError(
                f"workload {self.name}: {needed} files and directories at once need as many "
                f"inodes; {place} has {room.f_favail} of {room.f_files} free",
                hint="fewer items or clients, or a filesystem made with more inodes",
            )

    @override
    def why_not_by_url(self, url_prefix: str) -> str | None:
        """Return why these items need directories: a bucket has neither these nor renames."""
        return None if client_of(url_prefix).has_directories else self._why_no_directories()

    @override
    def why_not_on_local_drives(self) -> str | None:
        """Return why `stride` is impossible: another node's items are on that node's own drive."""
        if self.options.stride:
            return (
                f"stride = {self.options.stride}: items of clients on another node lie on that "
                "node's own drive"
            )
        return None

    def _why_no_directories(self) -> str | None:
        if self.options.of == "files":
            return None
        return (
            f'of = "{self.options.of}": there are no directories of one server, and none is '
            'renamed; of = "files"'
        )

    @override
    def warm(self) -> None:
        """Load the program into memory, so that it is not read from a cold device."""
        hold_program(str(own_program(PROGRAM)))

    @override
    def run(self, job: JobInput) -> JobOutput:
        """Run the phases in step with all other jobs.

        Raises HeadraceError with the cause of a stop, the same for all jobs.
        """
        if job.job >= job.jobs:
            raise HeadraceError(
                f"workload {self.name}: all clients go through the phases together, once: load "
                'must be "batch"'
            )
        start_s = time.monotonic()
        report = self._run_program(job) if job.url is None else self._run_by_url(job, job.url)
        end_s = time.monotonic()
        reads = [each for each in report["phases"] if each["phase"] == "file_read"]
        return JobOutput(
            bytes_asked=sum(each["read_bytes"] for each in reads),
            bytes_written=sum(each["written_bytes"] for each in report["phases"]),
            read_calls=sum(each["operations"] for each in reads),
            # Mean of one client: the clients wait concurrently.
            read_wait_s=min(
                end_s - start_s,
                sum(each["latency_ns_mean"] * each["operations"] for each in report["phases"])
                / 1e9
                / self.options.clients,
            ),
            phases=[
                (
                    each["phase"].replace("_", " "),
                    each["start_ns"] / 1e9,
                    (each["start_ns"] + max(each["last_done_ns"], 0)) / 1e9,
                )
                for each in report["phases"]
            ],
            results=report,
            measured_child=job.url is None,
        )

    def _run_program(self, job: JobInput) -> dict[str, Any]:
        name = job.scratch.name
        kept = (job.keep or job.scratch).absolute()
        config, output = kept / f"metadata-{name}.config.json", kept / f"metadata-{name}.json"
        errors = kept / f"metadata-{name}.err"
        directory = (job.scratch.parent / "metadata").absolute()
        config.write_text(json.dumps(self.config(job, str(directory))))
        end = children.run(
            [str(own_program(PROGRAM)), str(config)],
            # Not on the target: not every filesystem can remove a directory that a process is
            # working in.
            directory=kept,
            stdout=output,
            stderr=errors,
        )
        config.unlink()
        if end.exit_code > 0:
            output.unlink(missing_ok=True)
            raise HeadraceError(end.last_words or f"{PROGRAM} ended with exit code {end.exit_code}")
        end.check()
        errors.unlink(missing_ok=True)
        return json.loads(output.read_text())

    def _run_by_url(self, job: JobInput, url: str) -> dict[str, Any]:
        # One directory shared by all jobs, above each job's own.
        place = f"{url.rpartition('/')[0]}/metadata"
        try:
            storage, path = remote_storage(place)
            if not storage.has_directories and (why_not := self._why_no_directories()) is not None:
                raise HeadraceError(f"{place}: {why_not}")
            said = metadata_json(
                json.dumps(self.config(job, path)), storage, storage.has_directories
            )
        except OSError as error:
            raise HeadraceError(cause_of(error)) from error
        return json.loads(said)

    def config(self, job: JobInput, directory: str) -> dict[str, Any]:
        """Return the program's configuration (crates/metadata, `Config`)."""
        options = self.options
        read = options.write_bytes if options.read_bytes is None else options.read_bytes
        return {
            "directory": directory,
            "meeting": None if job.meeting is None else str(job.meeting.absolute()),
            "clients": options.clients,
            "first_client": job.job * options.clients,
            # Where each node has its own drive, the node's first client makes the directories
            # there.
            **({"shared_from": job.first_here * options.clients} if job.first_here else {}),
            "clients_total": job.jobs * options.clients,
            "items": options.items,
            "depth": options.depth,
            "branching_factor": options.branching_factor,
            "leaf_only": options.leaf_only,
            "unique_directories": options.unique_directories,
            "stride": options.stride,
            "write_bytes": options.write_bytes if options.of != "directories" else 0,
            "read_bytes": read if "file_read" in options.phase_names else 0,
            "sync": options.sync,
            "verify": options.verify,
            "phases": options.phase_names,
            "patience_s": options.patience,
        }

    @override
    def merge(self, outputs: list[JobResults]) -> JobResults:
        """Return the rates and latencies of each phase over all clients."""
        return merge_phases(outputs)

    @override
    def profile(self, site: Site | None) -> ModelledJob:
        """Return the same operations, one item after the other; one client per slot.

        A job in virtual time has one new file at a time: the phases of an item follow each other,
        and clients are not in step. Directories count as files.
        """
        options = self.options
        if options.clients > 1:
            raise HeadraceError(
                f"workload {self.name}: a simulated slot is one client; give slots = "
                f"{options.clients} instead of clients"
            )
        read = options.write_bytes if options.read_bytes is None else options.read_bytes
        steps: list[Step] = []
        for kind in ("directory", "file"):
            names = [name for name in options.phase_names if name.startswith(kind)]
            if not names:
                continue
            inner: list[Step] = [{"do": "create", "file": "item"}]
            if kind == "file" and options.write_bytes:
                inner.append(
                    {
                        "do": "write",
                        "file": "item",
                        "offset_bytes": 0,
                        "length_bytes": options.write_bytes,
                    }
                )
                if options.sync:
                    inner.append({"do": "fsync", "file": "item"})
            if f"{kind}_stat" in names:
                inner.append({"do": "stat", "file": "item"})
            if f"{kind}_read" in names and read:
                inner.append(
                    {"do": "read", "file": "item", "offset_bytes": 0, "length_bytes": read}
                )
            inner.append({"do": "delete", "file": "item"})
            steps.append({"do": "repeat", "times": options.items, "steps": inner})
        return ModelledJob(
            steps=steps,
            files=[{"name": "item", "on": "target", "share": "new"}],
            memory_bytes=8 << 20,
            description={"workload": "metadata", "items": options.items, "of": options.of},
        )
