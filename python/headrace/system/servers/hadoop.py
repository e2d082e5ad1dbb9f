"""Base layer: Hadoop's Java archives: found in the user's cache, or downloaded there once by Maven.

    python -m headrace.system.servers.hadoop

downloads them (65 MB); so does `make setup-all`. `HADOOP_HOME` names an unpacked Hadoop
distribution to use instead.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.errors import HeadraceError, MissingError, Problem
from headrace.system.requirements import find_program, remedy

_POM = Path(__file__).with_name("hadoop.pom.xml")
_FETCH = f"{Path(sys.executable).name} -m headrace.system.servers.hadoop"
_FETCH_PATIENCE_S = 900


def _cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    root = Path(given) if given else Path.home() / ".cache"
    # Named by a hash of the dependency list, so that each version of the list has its own
    # directory.
    return root / "headrace" / "hadoop" / hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]


def _distribution() -> list[Path] | None:
    home = os.environ.get("HADOOP_HOME")
    if not home:
        return None
    share = Path(home) / "share" / "hadoop"
    return [share / part / "*" for part in ("common", "common/lib", "hdfs", "hdfs/lib")]


def class_path() -> list[Path]:
    """Return the entries of Java's class path for HDFS. Raises MissingError without Hadoop."""
    if (found := _distribution()) is not None:
        if not any(found[2].parent.glob("hadoop-hdfs-*.jar")):
            raise MissingError(
                f"HADOOP_HOME={os.environ['HADOOP_HOME']} holds no Hadoop "
                "(share/hadoop/hdfs/hadoop-hdfs-*.jar)"
            )
        return found
    if not _cache().is_dir():
        raise MissingError("Hadoop's Java archives are not here", hint=f"fetch them: {_FETCH}")
    return [_cache() / "*"]


def missing(needed_by: str) -> list[Problem]:
    """Return what this machine lacks to run HDFS."""
    problems: list[Problem] = []
    if find_program("java") is None:
        problems.append(Problem("the program java is not installed", needed_by, remedy("java")))
    try:
        class_path()
    except MissingError as error:
        problems.append(Problem(error.message, needed_by, error.hint or ""))
    return problems


def fetch() -> Path:
    """Download the archives unless they are cached; return their directory.

    Raises MissingError without Maven, HeadraceError with its message when it fails.
    """
    place = _cache()
    if place.is_dir():
        return place
    maven = find_program("mvn")
    if maven is None:
        raise MissingError("the program mvn (Maven) is not installed", hint=remedy("mvn"))
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".fetching-", dir=place.parent))
    try:
        argv = [
            maven,
            "--quiet",
            "--batch-mode",
            f"--file={_POM}",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={temporary}",
            "-DincludeScope=runtime",
        ]
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_FETCH_PATIENCE_S, cwd=temporary
        )
        if done.returncode != 0:
            said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            raise HeadraceError(
                f"mvn could not fetch Hadoop: {said[0] if said else 'it says nothing'}"
            )
        temporary.chmod(0o755)
        temporary.rename(place)
    except OSError:
        if not place.is_dir():  # another download may have finished first
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return place


if __name__ == "__main__":
    try:
        print(fetch())
    except HeadraceError as problem:
        sys.exit(f"{problem.message}{f' ({problem.hint})' if problem.hint else ''}")
