"""Target `s3` on a store of somebody else: what a killed run leaves there, `headrace undo` removes.

The store is a real gateway.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
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

    def kill_when_something_is_there(self, write: str) -> None:
        """Write until something is in the bucket, then kill the whole run."""
        program = [sys.executable, "-c", TRIES.replace("WRITE", write)]
        with subprocess.Popen(
            program, cwd=self.place, env=self.environment, start_new_session=True,
            stdout=subprocess.DEVNULL,
        ) as run:  # fmt: skip
            deadline_s = time.monotonic() + 60
            while not self.files():
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
