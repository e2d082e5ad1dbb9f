"""Storage of the user's own servers, with an agent on each: from the study to the record.

The server is an XRootD server on loopback whose file system is on a loop device; the agent reaches
it by SSH. The command itself cannot drop the page cache, so that only the agent can.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from headrace.system.waiting import wait_until
from ports import free_port
from ssh_server import SshServer, ssh_server
from workspace import HEADRACE, Workspace

# They look what is in the page cache and what a disk has read.
pytestmark = [
    pytest.mark.quiet,
    pytest.mark.usefixtures("needs_root"),
]

PATIENCE_S = 300
DURING_KIB = 192
WITHOUT_DROPPING = """
mount --bind /proc/sys/vm/drop_caches /proc/sys/vm/drop_caches
mount -o remount,ro,bind /proc/sys/vm/drop_caches
exec "$@"
"""
STUDY = """
headrace = 1
title = "a server of the user's own"
{targets}
{workload}
[plan]
repeats = {{ min = 1 }}
[run]
shortest = 0
foreign_load = "warning"
series_interval = "50 ms"
{more}
"""
AGENT = """
server_agents = "ssh://alpha"
server_directory = "{directory}"
server_read_ahead = "192 KiB"
"""


@dataclass(frozen=True)
class FileServer:
    """An XRootD server, and how its machine is reached."""

    ssh: SshServer
    port: int
    directory: Path
    """Its file system, which is on a device of its own."""
    device: str
    before_kib: int
    """Its read-ahead before any study."""
    journals: Path

    def read_ahead_kib(self) -> int:
        return int(Path(f"/sys/block/{self.device}/queue/read_ahead_kb").read_text())

    def agents(self) -> list[psutil.Process]:
        """Processes of agents that the SSH server has started, without shells."""
        found: list[psutil.Process] = []
        for process in psutil.Process(self.ssh.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                words = process.cmdline()
                if words and "python" in words[0] and "node_process" in " ".join(words):
                    found.append(process)
        return found


@pytest.fixture(scope="module")
def file_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileServer]:
    place = tmp_path_factory.mktemp("server")
    directory, image, journals = place / "export", place / "image", place / "journals"
    directory.mkdir()
    with image.open("wb") as file:
        file.truncate(256 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    with contextlib.ExitStack() as stack:
        subprocess.run(["mount", "-o", "loop", image, directory], check=True)
        stack.callback(subprocess.run, ["umount", directory], check=True)
        source = subprocess.run(
            ["findmnt", "-no", "SOURCE", directory], check=True, stdout=subprocess.PIPE, text=True
        )
        port = stack.enter_context(_xrootd(place, directory))
        ssh = stack.enter_context(
            ssh_server(place / "ssh", {"HEADRACE_JOURNAL_DIR": str(journals)})
        )
        device = Path(source.stdout.strip()).name
        before_kib = int(Path(f"/sys/block/{device}/queue/read_ahead_kb").read_text())
        assert before_kib != DURING_KIB
        yield FileServer(ssh, port, directory, device, before_kib, journals)


@contextlib.contextmanager
def _xrootd(place: Path, directory: Path) -> Iterator[int]:
    port = free_port()
    (directory / "store").mkdir()
    (place / "xrootd.cfg").write_text(
        f"all.export /store r/w\noss.localroot {directory}\nall.adminpath {place}/admin\n"
        f"all.pidpath {place}/admin\nxrd.port {port}\nxrd.network nodnr\n"
    )
    may = "-all,+dac_override"
    server = subprocess.Popen(
        [
            *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
            *(f"--inh-caps={may}", f"--ambient-caps={may}"),
            *("xrootd", "-c", place / "xrootd.cfg", "-l", place / "xrootd.log", "-I", "v4"),
        ]
    )
    try:
        assert wait_until(lambda: _listens(port), PATIENCE_S, 0.05)
        yield port
    finally:
        server.kill()
        server.wait()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@pytest.fixture
def workspace(workspace: Workspace, file_server: FileServer) -> Workspace:
    workspace.environment["PATH"] = file_server.ssh.path
    return workspace


def run_without_dropping(
    workspace: Workspace, *arguments: object
) -> subprocess.CompletedProcess[str]:
    # As slave: what others unmount is unmounted there, too.
    enter = ("unshare", "--mount", "--propagation", "slave", "sh", "-ec", WITHOUT_DROPPING, "sh")
    return subprocess.run(
        [*enter, HEADRACE, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        cwd=workspace.place,
        env={**os.environ, **workspace.environment},
    )


def test_caches_disks_probes_and_power_of_a_server(
    workspace: Workspace, file_server: FileServer
) -> None:
    sensors = workspace.place / "hwmon"
    (sensors / "hwmon0").mkdir(parents=True)
    (sensors / "hwmon0" / "name").write_text("psu\n")
    (sensors / "hwmon0" / "power1_input").write_text("80000000\n")
    targets = (
        f'[target.store]\nkind = "xrootd"\naddress = "127.0.0.1:{file_server.port}"\n'
        f'path = "/store"{AGENT.format(directory=file_server.directory)}'
        f'[meter.psu]\nkind = "hwmon"\ntree = "{sensors}"\ncovers = "server"\nof = ["store"]\n'
        'interval = "100 ms"'
    )
    text = STUDY.format(
        targets=targets,
        workload='[workload.scan]\nkind = "scan"\ndata = { events = 200_000 }',
        more='[factors]\n"run.cache" = ["cold", "as-is"]',
    )
    ended = run_without_dropping(
        workspace, "run", workspace.study(text), "--results", "results", "--cache-dir", "cache"
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not file_server.agents() and file_server.read_ahead_kib() == file_server.before_kib
    trials = {trial["run"]["cache"]: trial for trial in workspace.trials()}
    for trial in trials.values():
        assert trial["status"] == "done" and trial["validity"]["valid"], trial["validity"]
    read = {
        cache: trial["probes"]["servers"]["server-0"]["block"]["bytes_read"]
        for cache, trial in trials.items()
    }
    trial = trials["cold"]
    record = workspace.place / "results" / "trials" / trial["id"]
    unique = sum(pq.read_table(record / "jobs.parquet")["bytes_unique"].to_pylist())
    assert read["cold"] >= 0.9 * unique > 100_000, "the server read its disk"
    assert read["as-is"] < 0.1 * unique, "the data set was in the server's cache"
    (server,) = trial["server_facts"]
    assert (server["name"], server["host"]) == ("server-0", socket.gethostname())
    assert {"cpu", "memory"} <= trial["probes"]["servers"]["server-0"].keys()
    (setting,) = trial["settings"]
    assert setting["name"] == "server_read_ahead" and setting["applied"]
    assert (setting["before"], setting["after"]) == (
        file_server.before_kib << 10,
        DURING_KIB << 10,
    )
    energy = trial["energy"]
    assert energy["servers_j"] == pytest.approx(80 * trial["last_done_s"], rel=0.05), energy
    (psu,) = energy["channels"]
    assert (psu["node"], psu["of"]) == ("server-0", ["server-0"])
    rows = pq.read_table(record / "series" / "server-block.parquet").to_pylist()
    assert {row["node"] for row in rows} == {"server-0"}


def test_the_agent_of_a_server_is_killed(workspace: Workspace, file_server: FileServer) -> None:
    """Its trial is invalid and names it, the study goes on, and the disk is restored."""
    agent = AGENT.format(directory=file_server.directory)
    storage = workspace.place / "storage"
    targets = "".join(
        f'[target.{name}]\nkind = "path"\npath = "{storage}"\ncreate = true{agent}'
        for name in ("first", "second")
    )
    text = STUDY.format(
        targets=targets,
        workload='[workload.wait]\nkind = "command"\ncommand = ["sh", "-c", '
        f"\"touch '{workspace.place}/begun'; sleep 4\"]",
        more='cache = "as-is"',
    )
    process = workspace.start("run", workspace.study(text), "--results", "results")
    begun = workspace.place / "begun"
    assert wait_until(begun.exists, PATIENCE_S, 0.05), process.communicate()
    (lost,) = file_server.agents()
    assert file_server.read_ahead_kib() == DURING_KIB
    lost.send_signal(signal.SIGKILL)
    said = "".join(process.communicate())
    assert process.returncode != 2 and "Traceback" not in said, said
    trials = sorted(workspace.trials(), key=lambda trial: trial["started_utc"])
    reasons = [
        {each["code"]: each["text"] for each in trial["validity"]["reasons"]} for trial in trials
    ]
    assert [trial["status"] for trial in trials] == ["done", "done"]
    assert "server-0" in reasons[0]["node-lost"]
    assert "node-lost" not in reasons[1], reasons[1]
    events = [trial["server_facts"][0].get("events", []) for trial in trials]
    assert [[event["what"] for event in each] for each in events] == [["lost"], []]
    assert file_server.read_ahead_kib() == file_server.before_kib
    assert not list(file_server.journals.iterdir())


def test_what_a_server_lacks_is_said_before_anything_starts(
    workspace: Workspace, file_server: FileServer
) -> None:
    shutil.rmtree(workspace.place / "storage", ignore_errors=True)
    for agents, directory, said in (
        ("ssh://nowhere.invalid", file_server.directory, "correct the name in server_agents"),
        ("ssh://alpha", "/no/such/folder", "server-0: "),
    ):
        targets = (
            f'[target.store]\nkind = "path"\npath = "{workspace.place}/storage"\ncreate = true\n'
            f'server_agents = "{agents}"\nserver_directory = "{directory}"\n'
        )
        text = STUDY.format(
            targets=targets,
            workload='[workload.wait]\nkind = "command"\ncommand = ["true"]',
            more="",
        )
        ended = workspace.run("run", workspace.study(text), "--results", "results")
        shown = " ".join((ended.stdout + ended.stderr).split())
        assert ended.returncode == 3 and said in shown and "target store" in shown, shown
    assert not workspace.trials()
