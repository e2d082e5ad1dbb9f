"""Workload `stage`: jobs whose input is on a storage element.

The input is copied to the slot's scratch directory in the background while the previous file is
processed (FileStager), optionally through a cache on the node (pCache), or is read remotely (`input
= "remote"`). Another workload (scan, analysis or skim) processes the input. In a simulation, the
job is a profile of the catalog.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, cast

from pydantic import Field, model_validator
from typing_extensions import override

from headrace.datasets import Data, data_files
from headrace.errors import HeadraceError, Problem, as_word
from headrace.readers.options import ReadingOptions, WrongField
from headrace.site import Site
from headrace.units import MOST_FILES, Bytes
from headrace.user import user_name
from headrace.workloads import (
    JobInput,
    JobOutput,
    JobResults,
    ModelledJob,
    Workload,
    WorkloadOptions,
)
from headrace.workloads.analysis import Analysis, AnalysisOptions
from headrace.workloads.replay import Replay, ReplayOptions
from headrace.workloads.scan import Scan, ScanOptions
from headrace.workloads.skim import Skim, SkimOptions
from headrace.workloads.staging.cache import NodeCache, Taken
from headrace.workloads.staging.copying import copy, size_of

_CACHE = "pcache"


class StagedScan(ScanOptions):
    """`job = { kind = "scan", … }`."""

    kind: Literal["scan"]


class StagedAnalysis(AnalysisOptions):
    """`job = { kind = "analysis", … }`."""

    kind: Literal["analysis"]


class StagedSkim(SkimOptions):
    """`job = { kind = "skim", … }`."""

    kind: Literal["skim"]


class StageOptions(ReplayOptions):
    """Fields of `[workload.NAME]` with `kind = "stage"`: those of `replay`, and `job`."""

    path_fields: ClassVar[tuple[str, ...]] = ("profile", "cache_directory")

    profile: str = Field("", description="simulated: a profile of the catalog, or a TOML file")
    source: str | None = Field(
        description="where input comes from: name of the [target.NAME] (measured) or "
        "[site.server.NAME] (simulated)"
    )
    input: Literal["staged", "remote"] = Field(
        "staged",
        description="staged: copied to the slot's scratch on the target, the next file while this "
        "one is worked on; remote: read from the source (DQ2_LOCAL)",
    )
    job: StagedScan | StagedAnalysis | StagedSkim | None = Field(
        None,
        discriminator="kind",
        description="measured: what is done with the input, a workload with its own options",
    )
    files_a_job: int = Field(
        3, ge=1, le=MOST_FILES, description="input files that a job works on, one after the other"
    )
    pcache: Bytes = Field(
        0, description="space of a node for staged files that other jobs may want (pCache)"
    )
    cache_directory: str | None = Field(
        None,
        description="a directory, of whatever filesystem, for that cache; on the target when not "
        "given",
    )
    cached: bool = Field(
        True,
        description="false: a staged file is written out and leaves the page cache before it is "
        "read, as it happens by itself when input is larger than memory",
    )
    verify: bool = Field(False, description="compare every staged copy with its source")

    @classmethod
    def anchored(cls, written: dict[str, object], base: Path) -> dict[str, object]:
        """Return the table with absolute paths for the user's files. Called before validation."""
        job = written.get("job")
        if not isinstance(job, dict):
            return written
        return {**written, "job": ReadingOptions.anchored(cast("dict[str, object]", job), base)}

    def wrong_fields(self) -> list[WrongField]:
        """Return the problems of the user's own files that the inner workload reads."""
        if self.job is None:
            return []
        return [(("job", *place), problem) for place, problem in self.job.wrong_fields()]

    @model_validator(mode="after")
    def _possible(self) -> StageOptions:
        if not self.profile and self.job is None:
            raise ValueError(
                'give job = { kind = "scan" } (or analysis, skim) to measure, or profile to '
                "simulate"
            )
        if self.job is not None and self.job.threads > 1:
            raise ValueError("a staged job has one thread: job.threads = 1")
        if self.input == "remote" and self.pcache:
            raise ValueError(
                "what is read remotely goes through no cache: pcache needs staged input"
            )
        if self.cache_directory is not None and not self.pcache:
            raise ValueError("cache_directory is of pcache, which has no space")
        return self


@dataclass
class _Staged:
    """One staged input file."""

    path: str
    taken: Taken
    wait_s: float = 0.0


@dataclass
class _Sums:
    """Totals of staging for one job."""

    files: int = 0
    hits: int = 0
    evicted: int = 0
    bytes_copied: int = 0
    copy_s: float = 0.0
    wait_s: float = 0.0

    def add(self, staged: _Staged) -> None:
        """Add one file."""
        self.files += 1
        self.hits += staged.taken.hit
        self.evicted += staged.taken.evicted
        self.bytes_copied += staged.taken.bytes_copied
        self.copy_s += staged.taken.copy_s
        self.wait_s += staged.wait_s


class Stage(Replay):
    """Stage the input, then read it with the inner workload."""

    kind = "stage"
    Options: ClassVar[type[WorkloadOptions]] = StageOptions
    feeds = frozenset({"files"})
    reads_urls: ClassVar[bool] = True

    options: StageOptions

    @property
    def inner(self) -> Workload | None:
        """The workload that processes the input."""
        options = self.options.job
        if options is None:
            return None
        kinds: dict[str, type[Workload]] = {"scan": Scan, "analysis": Analysis, "skim": Skim}
        return kinds[options.kind](self.name, options)

    @override
    def options_for_jobs(self) -> StageOptions:
        """Return the options with those that the inner workload fills in."""
        inner = self.inner
        if inner is None or self.options.job is None:
            return self.options
        job = self.options.job.model_validate(
            {**inner.options_for_jobs().model_dump(exclude_unset=True), "kind": inner.kind}
        )
        return self.options.model_copy(update={"job": job})

    @override
    def source(self) -> str | None:
        """Return the name of the target that stores the data set."""
        return self.options.source

    @override
    def reads_source(self) -> bool:
        """Return True when nothing is staged."""
        return self.options.input == "remote"

    @override
    def check(self) -> list[Problem]:
        """Return the problems of the inner workload, of a missing `job`, of the cache directory."""
        inner = self.inner
        if inner is None:
            return [
                Problem(
                    "a stage without job is simulated only",
                    f"workload {self.name}",
                    'give job = { kind = "scan" }, or headrace simulate STUDY',
                )
            ]
        problems = inner.check()
        where = self.options.cache_directory
        if where is not None and not os.access(where, os.W_OK | os.X_OK):
            problems.append(
                Problem(
                    f"the cache directory {where} is not there, or cannot be written to",
                    f"workload {self.name}",
                    f"mkdir -p {as_word(where)}, or mount what it is to lie on",
                )
            )
        return problems

    @override
    def dataset(self, slots_max: int) -> Data | None:
        """Return the inner workload's data set, which is on the source."""
        inner = self.inner
        return inner.dataset(slots_max) if inner is not None else None

    @override
    def target_bytes(self, slots_max: int) -> int:
        """Return the size of the cache and of two files per slot (one read, one being staged)."""
        inner, options = self.inner, self.options
        if inner is None:
            return super().target_bytes(slots_max)
        spec = inner.dataset(slots_max)
        if spec is None or options.input == "remote":
            return 0
        of_file = inner.target_bytes(slots_max) // data_files(spec)
        return 2 * slots_max * of_file + (options.pcache if options.cache_directory is None else 0)

    @override
    def prepare_files(self, directory: Path, slots: int, seed: int) -> list[str]:
        """Make nothing: the input is a data set on the source."""
        return []

    @override
    def cut(self, files: list[str], job: int, slots: int) -> tuple[str, ...]:
        """Return the next `files_a_job` files, starting over after the last."""
        count = self.options.files_a_job
        return tuple(files[(job * count + number) % len(files)] for number in range(count))

    @override
    def warm(self) -> None:
        """Do the inner workload's imports."""
        if (inner := self.inner) is not None:
            inner.warm()

    @override
    def run(self, job: JobInput) -> JobOutput:
        """Process file after file while the next one is staged.

        Raises HeadraceError when staging or reading fails.
        """
        inner = self.inner
        if inner is None:
            raise HeadraceError(f"workload {self.name}: without job it is simulated only")
        if self.options.input == "staged" and job.directory is None:
            raise HeadraceError(
                f"workload {self.name}: this target has no directory, and staged files need one"
            )
        outputs: list[JobOutput] = []
        phases: list[tuple[str, float, float]] = []
        sums = _Sums()
        with self._cache(job) as cache:
            for begun, staged in self._coming(job, cache):
                sums.add(staged)
                if staged.wait_s > 0:
                    phases.append(("stage-in", begun, begun + staged.wait_s))
                lease = staged.taken.lease
                with contextlib.ExitStack() as lent:
                    if lease is not None:
                        lent.callback(os.close, lease)
                    output = inner.run(replace(job, files=(staged.path,)))
                phases += output.phases
                outputs.append(output)
                if self.options.input == "staged":
                    Path(staged.path).unlink()
        return JobOutput(
            events=sum(each.events for each in outputs),
            bytes_uncompressed=sum(each.bytes_uncompressed for each in outputs),
            bytes_asked=sum(each.bytes_asked for each in outputs),
            # The data need not come from the target's device: it was just written there, or is
            # remote.
            bytes_unique=0,
            bytes_written=sum(each.bytes_written for each in outputs) + sums.bytes_copied,
            read_calls=sum(each.read_calls for each in outputs),
            read_wait_s=sum(each.read_wait_s for each in outputs) + sums.wait_s,
            phases=phases,
            results={
                "stage": vars(sums),
                "inputs": [each.results for each in outputs],
            },
        )

    @override
    def merge(self, outputs: list[JobResults]) -> JobResults:
        """Return the inner workload's result, with hit rate, copy time and wait time."""
        inner = self.inner
        results = [result for output in outputs for result in output["inputs"]]
        stages = [output["stage"] for output in outputs]
        total = {name: sum(stage[name] for stage in stages) for name in vars(_Sums())}
        merged: dict[str, object] = dict(inner.merge(results)) if inner is not None else {}
        merged["stage"] = {
            **total,
            "input": self.options.input,
            "hit_rate": total["hits"] / total["files"]
            if self.options.pcache and total["files"]
            else None,
            "copy_rate_bytes_per_s": total["bytes_copied"] / total["copy_s"]
            if total["copy_s"]
            else None,
        }
        return merged

    @override
    def profile(self, site: Site | None) -> ModelledJob:
        """Return the profile, whose steps `stage` and `take` name the files copied."""
        if not self.options.profile:
            raise HeadraceError(
                f"workload {self.name}: to simulate it, give profile = a profile of the catalog"
            )
        if self.options.input == "remote":
            raise HeadraceError(
                f"workload {self.name}: reading from the source is another profile: kind = "
                "replay, profile = atlas-dq2-local"
            )
        job = super().profile(site)
        if self.options.pcache:
            job.run["pcache_bytes"] = self.options.pcache
        return job

    # -- staging ---------------------------------------------------------------------------------

    def _coming(self, job: JobInput, cache: NodeCache | None) -> Generator[tuple[float, _Staged]]:
        """Yield each staged file, with the time at which the job began to wait for it.

        The next file is staged meanwhile.
        """
        if self.options.input == "remote":
            for file in job.files:
                yield time.monotonic(), _Staged(file, Taken(False, 0, 0.0, 0, None))
            return
        with ThreadPoolExecutor(1, "headrace-staging") as stager:
            coming: Future[_Staged] = stager.submit(self._stage, job, 0, cache)
            for number in range(len(job.files)):
                begun = time.monotonic()
                staged = coming.result()
                staged.wait_s = time.monotonic() - begun
                if number + 1 < len(job.files):
                    coming = stager.submit(self._stage, job, number + 1, cache)
                yield begun, staged

    def _stage(self, job: JobInput, number: int, cache: NodeCache | None) -> _Staged:
        source, options = job.files[number], self.options
        place = job.scratch / f"{number}-{source.rpartition('/')[2]}"

        def fetch(to: Path) -> tuple[int, float]:
            return copy(source, to, verify=options.verify, cached=options.cached)

        if cache is None:
            copied, took_s = fetch(place)
            return _Staged(str(place), Taken(False, copied, took_s, 0, None))
        return _Staged(str(place), cache.take(source, size_of(source), place, fetch))

    @contextmanager
    def _cache(self, job: JobInput) -> Generator[NodeCache | None]:
        """Yield the node's cache.

        A cache in `cache_directory` is removed by the last job that uses it; one on the target is
        removed with the jobs' scratch directories.
        """
        options = self.options
        if not options.pcache or options.input == "remote":
            yield None
            return
        if options.cache_directory is None:
            # Each node has its own cache, wherever the target is stored.
            yield NodeCache(job.scratch.parent / f"{_CACHE}-{job.node}", options.pcache)
            return
        top = Path(options.cache_directory) / f".headrace-pcache-{user_name()}"
        descriptor = _joined(top)
        try:
            yield NodeCache(top / _CACHE, options.pcache)
        finally:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(top, ignore_errors=True)
            os.close(descriptor)


def _joined(top: Path) -> int:
    """Return a descriptor of a shared directory, made if it is missing, locked as in use.

    What is in it while no job uses it was left by jobs that were killed, and is removed: it would
    count as hits.
    """
    while True:
        with contextlib.suppress(OSError):
            top.mkdir()
        descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(descriptor, top):
                    shutil.rmtree(top / _CACHE, ignore_errors=True)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if _is_at(descriptor, top):  # else its last user has just removed it
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False
