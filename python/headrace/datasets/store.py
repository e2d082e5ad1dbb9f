"""Data sets on disk: generated once into a cache, found again by their key, checked before they are trusted.

`CACHE/<key>/` holds the files and `manifest.json`. It is made whole under another name and renamed into place, so a
directory of that name is complete, and what was damaged later shows against the manifest.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.datasets.integrity import MANIFEST, faults, read_manifest
from headrace.datasets.spec import GENERATOR_VERSION, DatasetSpec
from headrace.errors import HeadraceError
from headrace.units import format_bytes

Progress = Callable[[int, int], None]
"""Called with the events written so far and the events in all."""


def materialise(
    spec: DatasetSpec, cache_dir: Path, progress: Progress | None = None, *, checksums: bool = False
) -> list[Path]:
    """The files of a data set, generated into `cache_dir/<key>/` unless they are there, in order.

    Whatever is there and does not agree with its manifest is made anew. Safe to call from several processes at once.
    Raises HeadraceError when the files cannot be written.
    """
    directory = cache_dir / spec.key
    if not _whole(directory, checksums):
        try:
            cache_dir.mkdir(parents=True, exist_ok=True)
            _generate(spec, directory, progress or (lambda done, total: None), checksums)
        except OSError as error:
            raise _not_written(directory, spec, error) from error
    return [directory / str(file["name"]) for file in read_manifest(directory).files]


def _whole(directory: Path, checksums: bool) -> bool:
    try:
        return not faults(directory, checksums=checksums)
    except HeadraceError:
        return False


def _not_written(directory: Path, spec: DatasetSpec, error: OSError) -> HeadraceError:
    from headrace.datasets.estimates import estimated_bytes

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        needed = format_bytes(estimated_bytes(spec))
        return HeadraceError(f"{directory}: no space left for a data set of about {needed}")
    return HeadraceError(f"{directory}: the data set cannot be written: {error.strerror or error}")


def _generate(spec: DatasetSpec, directory: Path, progress: Progress, checksums: bool) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{spec.key}-", dir=directory.parent))
    try:
        files = _run_writers(spec, temporary, progress)
        for file in files:
            file["mtime_ns"] = (temporary / str(file["name"])).stat().st_mtime_ns
        content = {
            "schema": 1,
            "generator": GENERATOR_VERSION,
            "spec": spec.model_dump(mode="json"),
            "files": files,
        }
        (temporary / MANIFEST).write_text(json.dumps(content, indent=1))
        temporary.chmod(0o755)
        _put_into_place(temporary, directory, checksums)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put_into_place(temporary: Path, directory: Path, checksums: bool) -> None:
    """Renames a whole data set to its name; another process may have been quicker, and a damaged one may be there."""
    if directory.exists() and not _whole(directory, checksums):
        damaged = Path(tempfile.mkdtemp(prefix=f".{directory.name}-damaged-", dir=directory.parent))
        directory.rename(damaged / directory.name)
        shutil.rmtree(damaged, ignore_errors=True)
    try:
        temporary.rename(directory)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _run_writers(spec: DatasetSpec, directory: Path, progress: Progress) -> list[dict[str, Any]]:
    """Writes all files, shared out over one process a core. Returns the facts of each, in order."""
    writers = min(spec.files, len(os.sched_getaffinity(0)))
    if spec.events <= 4096 or writers == 1:
        return _write_here(spec, directory, progress)
    request = json.dumps({"spec": spec.model_dump(mode="json"), "directory": str(directory)})
    command = [sys.executable, "-m", "headrace.datasets.writer_process"]
    running = [
        subprocess.Popen(
            [*command, str(first), str(writers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for first in range(writers)
    ]
    facts: dict[str, dict[str, Any]] = {}
    errors: list[dict[str, Any]] = []
    done = [0]
    lock = threading.Lock()

    def listen(process: subprocess.Popen[str]) -> None:
        assert process.stdin and process.stdout
        process.stdin.write(request + "\n")
        process.stdin.close()
        for line in process.stdout:
            message = json.loads(line)
            with lock:
                if "events_done" in message:
                    done[0] += int(message["events_done"])
                    progress(done[0], spec.events)
                elif "error" in message:
                    errors.append(message)
                else:
                    facts[str(message["name"])] = message

    listeners = [threading.Thread(target=listen, args=(process,), daemon=True) for process in running]
    try:
        for listener in listeners:
            listener.start()
        for listener in listeners:
            listener.join()
        codes = [process.wait() for process in running]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
    if errors:
        raise OSError(errors[0]["errno"], errors[0]["error"])
    if any(codes) or len(facts) != spec.files:
        said = next(
            (text for process in running if process.stderr and (text := process.stderr.read().strip())), ""
        )
        raise RuntimeError(f"a process that writes the data set {spec.key} ended early: {said[-2000:]}")
    return [facts[name] for name in sorted(facts)]


def _write_here(spec: DatasetSpec, directory: Path, progress: Progress) -> list[dict[str, Any]]:
    from headrace.datasets.file_of_events import write_file

    done = 0

    def tell(events: int) -> None:
        nonlocal done
        done += events
        progress(done, spec.events)

    return [asdict(write_file(spec, number, directory, tell)) for number in range(spec.files)]
