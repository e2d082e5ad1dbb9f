"""Target `s3` on a store of somebody else: what a killed run leaves there, `headrace undo` removes.

The store is a real gateway.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.system.own_programs import own_program
from headrace.system.waiting import wait_until
from ports import free_port

pytestmark = pytest.mark.usefixtures("needs_root")

TRIES = """
import os
from pathlib import Path
from headrace.system.journal import Journal
from headrace.targets import TargetContext
from headrace.targets.remote_url import put, try_writing

environment = {"AWS_ENDPOINT_URL_S3": os.environ["STORE"], "AWS_REGION": "us-east-1"}
with Journal.open("test") as journal:
    context = TargetContext(Path(), journal)
    while True:
        WRITE
"""
TRY = 'try_writing("s3://bucket", None, context, environment)'
PUT = 'put([Path("data")], "s3://bucket/set", None, context, environment, print)'

SLOW = """
import os, sys
from headrace.protocols import filesystem_of

os.environ["AWS_ENDPOINT_URL_S3"] = os.environ["STORE"]
filesystem, path = filesystem_of("s3://bucket/set/other")
with filesystem.open(path, "wb", block_size=6 << 20) as file, open("other", "rb") as source:
    file.write(source.read(12 << 20))
    print("begun", flush=True)
    sys.stdin.readline()
    file.write(source.read())
"""
STOPPED = """
import os, sys
from pathlib import Path
from headrace.targets import upload

os.environ["AWS_ENDPOINT_URL_S3"] = os.environ["STORE"]
reads = 0

class Source:
    name = "data"
    def open(self, mode):
        return self
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
    def read(self, size):
        global reads
        reads += 1
        if reads == 3:
            sys.exit(143)  # as SIGTERM does
        return bytes(size)

upload.upload("s3://bucket/set", Source(), compare=False)
"""


@dataclass
class Store:
    """A gateway with one bucket."""

    place: Path
    environment: dict[str, str]

    @property
    def bucket(self) -> Path:
        """The folder of the bucket."""
        return self.place / "root" / "bucket"

    def files(self) -> list[Path]:
        """Everything that has bytes, with the parts of unfinished uploads."""
        found = [each for each in self.bucket.rglob("*") if each.is_file()]
        return [each for each in found if each.stat().st_size]

    def kill_when_something_is_there(self, write: str, besides: Sequence[Path] = ()) -> None:
        """Write until something is in the bucket, then kill the whole run."""
        program = [sys.executable, "-c", TRIES.replace("WRITE", write)]
        with subprocess.Popen(
            program, cwd=self.place, env=self.environment, start_new_session=True,
            stdout=subprocess.DEVNULL,
        ) as run:  # fmt: skip
            deadline_s = time.monotonic() + 60
            while not set(self.files()) - set(besides):
                assert time.monotonic() < deadline_s and run.poll() is None, "nothing was written"
            os.killpg(run.pid, signal.SIGKILL)
        time.sleep(0.3)  # the gateway ends what it was told

    def undo(self) -> str:
        """Run `headrace undo`; return what it says."""
        words = [sys.executable, "-c", "from headrace.cli import main; main()", "undo"]
        ended = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return " ".join(ended.stdout.split())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    port = free_port()
    keys = {"AWS_ACCESS_KEY_ID": "admin", "AWS_SECRET_ACCESS_KEY": "secret"}
    keys |= {"ROOT_ACCESS_KEY": "admin", "ROOT_SECRET_KEY": "secret"}
    address = {"STORE": f"http://127.0.0.1:{port}"}
    journal = {"HEADRACE_JOURNAL_DIR": str(tmp_path / "journal")}
    made = Store(tmp_path, {**os.environ, **keys, **address, **journal})
    made.bucket.mkdir(parents=True)
    words = [str(own_program("versitygw")), "--port", f"127.0.0.1:{port}", "--quiet", "posix"]
    with subprocess.Popen([*words, str(made.bucket.parent)], env=made.environment) as gateway:
        try:
            yield made
        finally:
            gateway.kill()


def test_the_object_that_tries_a_store_is_undone(store: Store) -> None:
    """An object of 8 bytes stayed in the bucket, and undo said that there was nothing to do."""

    def left() -> bool:
        store.kill_when_something_is_there(TRY)
        found = bool(store.files())
        if not found:  # killed just after it was removed
            store.undo()
        return found

    assert wait_until(left, 60.0, 0.0), "no kill came in time"
    store.undo()
    assert store.files() == []


def test_parts_of_an_upload_are_undone_and_whole_files_stay(store: Store) -> None:
    """The parts of a killed upload stayed in the store, where no list of objects shows them."""
    (store.place / "data").write_bytes(os.urandom(64 << 20))
    store.kill_when_something_is_there(PUT)
    assert store.files(), "nothing was left"
    whole = store.bucket / "set" / "manifest.json"
    whole.parent.mkdir(exist_ok=True)
    whole.write_text("{}")
    assert "s3://bucket/set" in store.undo()
    assert store.files() == [whole]


def test_the_upload_of_another_run_to_the_same_folder_goes_on(store: Store) -> None:
    """Undo ended every upload in the folder of the data set, also that of a run that still ran."""
    (store.place / "data").write_bytes(os.urandom(64 << 20))
    (store.place / "other").write_bytes(content := os.urandom(24 << 20))
    with subprocess.Popen(
        [sys.executable, "-c", SLOW], env=store.environment, cwd=store.place,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "begun\n"
        theirs = store.files()
        assert theirs, "its first part is there"
        store.kill_when_something_is_there(PUT, besides=theirs)
        assert len(store.files()) > len(theirs)
        assert "s3://bucket/set" in store.undo()
        assert store.files() == theirs
        other.stdin.write("go on\n")
        other.stdin.flush()
        assert other.wait(60) == 0
    assert (store.bucket / "set" / "other").read_bytes() == content
    assert not [*(store.place / "journal").iterdir()]


def test_an_upload_that_is_stopped_leaves_no_object_that_is_cut_short(store: Store) -> None:
    """What had been sent by then became an object."""
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED], env=store.environment, cwd=store.place,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as run:  # fmt: skip
        (store.place / "data").write_bytes(os.urandom(8 << 20))
        assert run.wait(60) != 0
    assert store.files() == []
