"""Target `xrootd` on servers of somebody else: what a killed run leaves there, undo removes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.system.waiting import wait_until
from ports import free_port

pytestmark = pytest.mark.usefixtures("needs_root")

UPLOAD = """
import os
from pathlib import Path
from headrace.system.journal import Journal
from headrace.targets import TargetContext
from headrace.targets.xrootd import Xrootd, XrootdOptions

address = os.environ["SERVER"]
options = XrootdOptions.model_validate({"address": address, "path": "/store"})
with Journal.open("test") as journal:
    context = TargetContext(Path(), journal)
    target = Xrootd("theirs", options)
    target.prepare(context)
    target.upload([Path("data.root")], ".headrace/set", context, print)
"""


@dataclass
class Server:
    """A server with a folder `/store`."""

    place: Path
    environment: dict[str, str]

    def files(self) -> list[Path]:
        """What has bytes in its folder."""
        found = [each for each in (self.place / "root" / "store").rglob("*") if each.is_file()]
        return [each for each in found if each.stat().st_size]

    def undo(self) -> str:
        """Run `headrace undo`; return what it says."""
        words = [sys.executable, "-c", "from headrace.cli import main; main()", "undo"]
        ended = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return " ".join(ended.stdout.split())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    port, root = free_port(), tmp_path / "root"
    (root / "store").mkdir(parents=True)
    (tmp_path / "theirs.cfg").write_text(
        f"all.export /store r/w\noss.localroot {root}\nall.adminpath {tmp_path}/admin\n"
        f"all.pidpath {tmp_path}/admin\nxrd.port {port}\nxrd.network nodnr\n"
    )
    drop = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    rights = ("--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override")
    start = ("xrootd", "-c", str(tmp_path / "theirs.cfg"), "-l", str(tmp_path / "log"), "-I", "v4")
    environment = {
        **os.environ, "SERVER": f"127.0.0.1:{port}",
        "HEADRACE_JOURNAL_DIR": str(tmp_path / "journal"),
    }  # fmt: skip
    with subprocess.Popen([*drop, *rights, *start]) as process:
        try:
            assert wait_until(lambda: listens(port), 20, 0.05)
            yield Server(tmp_path, environment)
        finally:
            process.kill()


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_the_part_of_a_file_that_a_killed_run_had_sent_is_undone(server: Server) -> None:
    """It stayed, under the name of the whole file, and undo said that there was nothing to do."""
    with (server.place / "data.root").open("wb") as data:
        data.truncate(4_000_000_000)  # sent for longer than it takes to be killed
    with subprocess.Popen(
        [sys.executable, "-c", UPLOAD], cwd=server.place, env=server.environment,
        start_new_session=True, stdout=subprocess.DEVNULL,
    ) as run:  # fmt: skip
        assert wait_until(lambda: bool(server.files()) or run.poll() is not None, 60, 0.01)
        assert run.poll() is None
        os.killpg(run.pid, signal.SIGKILL)
    (left,) = server.files()
    assert left.name.startswith("data.root.partial-"), "no file looks whole that is not"
    theirs = left.with_name("other.root.partial-0123")
    theirs.write_text("another run is at work")
    deadline_s = time.monotonic() + 30
    said = ""
    while left.exists() and time.monotonic() < deadline_s:
        said += server.undo()
    assert str(left.name) in said
    assert server.files() == [theirs]


def test_a_file_has_its_name_when_it_is_whole(server: Server) -> None:
    content = os.urandom(3 << 20)
    (server.place / "data.root").write_bytes(content)
    place = server.place / "root" / "store" / ".headrace" / "set"
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-c", UPLOAD], cwd=server.place, env=server.environment, check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        assert [each.name for each in place.iterdir()] == ["data.root"]
        assert (place / "data.root").read_bytes() == content
        (place / "data.root").write_bytes(content[:-1] + b"x")  # damaged: it is sent again
