"""Servers that cannot be had, by the real command line.

One clear message each, no traceback, in bounded time, nothing left.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_server import run_command
from headrace.errors import HeadraceError
from headrace.system.cluster import Cluster
from headrace.system.journal import Journal
from headrace.system.own_programs import own_program
from headrace.system.servers.glusterfs import GlusterfsClient
from headrace.system.waiting import wait_until
from headrace.targets import TargetContext
from headrace.targets.served import client_nodes
from ports import free_port
from served_targets import accepts, made, namespaces, namespaces_of, processes_of

pytestmark = pytest.mark.usefixtures("needs_root")

HEADRACE = [sys.executable, "-c", "from headrace.cli import main; main()"]
STUDY = """
headrace = 1
title = "a server that cannot be had"
[target.store]
{target}
[workload.scan]
kind = "scan"
data = {{ events = 2000 }}
[plan]
repeats = {{ min = 1 }}
[run]
shortest = 0
"""


def said_of(target: str, folder: Path, *before: str, **environment: str) -> tuple[int, str]:
    """(exit code, all output with its lines joined) of a study of this target."""
    (folder / "study.toml").write_text(STUDY.format(target=target))
    done = subprocess.run(
        [*before, *HEADRACE, "run", "study.toml", "--results", "results"],
        cwd=folder,
        env={
            **os.environ,
            "HEADRACE_JOURNAL_DIR": str(folder / "journal"),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in said
    journal = folder / "journal"
    assert not journal.exists() or list(journal.iterdir()) == []
    return done.returncode, said


REFUSED = {
    "nfs": ('address = "127.0.0.1"\nexport = "/vol"', "Connection refused"),
    "xrootd": (
        'address = "127.0.0.1:1"',
        "127.0.0.1:1 does not show /store: Unable to connect: connection refused",
    ),
    "hdfs": (
        'address = "127.0.0.1:1"',
        "the name node 127.0.0.1:1 is not reached: Connection refused",
    ),
    "s3": (
        'endpoint = "http://127.0.0.1:1"\nbucket = "bucket"',
        "http://127.0.0.1:1 cannot be reached: Connection refused",
    ),
    "glusterfs": (
        'address = "no.such.host.invalid"\nvolume = "v"',
        "cannot be mounted: error in getaddrinfo [{family=2}, {ret=Name or service not known}]; "
        "DNS resolution failed on host "
        "no.such.host.invalid (are address and volume right",
    ),
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.heavy if kind in ("s3", "hdfs") else ())
        for kind in REFUSED
    ],
)
def test_an_address_that_refuses(kind: str, tmp_path: Path) -> None:
    options, wanted = REFUSED[kind]
    code, said = said_of(
        f'kind = "{kind}"\n{options}',
        tmp_path,
        AWS_ACCESS_KEY_ID="key",
        AWS_SECRET_ACCESS_KEY="secret",
    )
    early = kind in ("xrootd", "hdfs", "s3")  # they are asked before anything starts
    assert code == (3 if early else 5)
    assert (tmp_path / "results").exists() != early
    assert "target store: target store" not in said
    assert wanted in said, said
    if early:
        planned = subprocess.run(
            [*HEADRACE, "plan", "study.toml"],
            cwd=tmp_path,
            env={**os.environ, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert planned.returncode == 0
        assert f"target store cannot be used here now: {wanted}" in " ".join(
            planned.stdout.split()
        ).replace("s3://bucket: ", "")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("xrootd", "no answer within 1 s .does it speak another protocol, or is it a redirector"),
        ("hdfs", "the server does not answer within 1 s"),
    ],
)
def test_an_address_that_says_nothing(
    kind: str, said: str, context: TargetContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message was of a program that did not end, named env or python."""
    monkeypatch.setattr(f"headrace.targets.{kind}._FIRST_ANSWER_S", 1.0, raising=False)
    monkeypatch.setattr("headrace.targets.remote_url._TRY_PATIENCE_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(HeadraceError, match=said) as caught:
            made(kind, address=address, path="/store").prepare(context)
    assert "address" in (caught.value.hint or "")


def test_a_copy_to_an_xrootd_server_does_not_wait_for_half_an_hour(
    context: TargetContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XRootD's client gives up a request after 1800 s, by its own default."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name, does in (
        ("xrdfs", "exit 0"),
        ("xrdcp", 'echo "[3005] after $XRD_REQUESTTIMEOUT s" >&2; exit 1'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "a.root").write_bytes(b"events")
    target = made("xrootd", address="127.0.0.1:1", path="/store/me")
    target.prepare(context)
    said = r"target store: a\.root cannot be copied to 127\.0\.0\.1:1: \[3005\] after 60 s"
    with pytest.raises(HeadraceError, match=said) as caught:
        target.upload([tmp_path / "a.root"], "folder", context, lambda _: None)
    assert "may this user write to /store/me there" in (caught.value.hint or "")


def test_a_copy_for_which_no_data_server_answers(
    context: TargetContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user without the right to write, or a full disk, was suspected."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    # What XRootD's clients say behind a redirector one of whose two servers was stopped.
    expired = 'echo "Run: [ERROR] Operation expired: (destination)" >&2; exit 51'
    for name, does in (("xrdfs", "exit 0"), ("xrdcp", expired)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "a.root").write_bytes(b"events")
    target = made("xrootd", address="127.0.0.1:1", path="/store/me")
    target.prepare(context)
    with pytest.raises(HeadraceError, match="Operation expired") as caught:
        target.upload([tmp_path / "a.root"], "folder", context, lambda _: None)
    assert "does each data server answer" in (caught.value.hint or "")


def test_a_client_that_fails_is_dead_before_its_mount_is_undone(tmp_path: Path) -> None:
    """Else it could mount after that, and leave a dead mount."""
    (tmp_path / "mount").mkdir()
    with Journal.open("a volume that is not there", tmp_path / "journal") as journal:
        client = GlusterfsClient(
            journal, None, ["no.such.host.invalid"], "v", tmp_path / "mount", tmp_path / "log"
        )
        with pytest.raises(HeadraceError, match="cannot be mounted"):
            client.mount()
        lines = [json.loads(line) for line in journal.file.read_text().splitlines()]
    action = {line["begin"]: line["action"] for line in lines if "begin" in line}
    undone = [action[line["end"]] for line in lines if "end" in line]
    assert undone == ["end_process", "unmount"]


def test_a_program_that_is_missing_is_named_with_its_package(tmp_path: Path) -> None:
    hide = 'mount --bind /dev/null "$(command -v ganesha.nfsd)" && exec "$@"'
    code, said = said_of(
        'kind = "nfs"',
        tmp_path,
        "unshare",
        "--mount",
        "--propagation",
        "slave",
        "sh",
        "-c",
        hide,
        "sh",
    )
    assert code not in (0, 1)
    assert "ganesha.nfsd" in said
    assert "apt-get install nfs-ganesha" in said
    assert not (tmp_path / "results" / "trials").exists(), "before anything starts"


def test_an_export_that_is_read_only(tmp_path: Path) -> None:
    code, said = said_of('kind = "nfs"\nread_only = true', tmp_path)
    assert code == 5
    assert "the export cannot be written to: Read-only file system (export it read-write" in said


@pytest.mark.parametrize("kind", ["hdfs", "glusterfs"])
def test_fewer_nodes_than_replicas_is_unsupported(kind: str, tmp_path: Path) -> None:
    _, said = said_of(f'kind = "{kind}"\nbricks = {{ on = "node" }}\nreplicas = 2', tmp_path)
    assert (
        "1 node with a brick is fewer than the 2 that a file's copies or pieces have to be on"
        in said
    )
    assert "1 unsupported" in said


def test_wrong_credentials_are_said_in_the_servers_words(tmp_path: Path) -> None:
    (tmp_path / "root" / "bucket").mkdir(parents=True)
    port = free_port()
    argv = [str(own_program("versitygw")), "--port", f"127.0.0.1:{port}", "--quiet", "posix"]
    keys = {"ROOT_ACCESS_KEY": "right", "ROOT_SECRET_KEY": "also-right"}
    server = subprocess.Popen(
        [*argv, str(tmp_path / "root")],
        env={**os.environ, **keys},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert wait_until(lambda: accepts(port), 60, 0.05)
        target = f'kind = "s3"\nendpoint = "http://127.0.0.1:{port}"\nbucket = "bucket"'
        code, said = said_of(
            target, tmp_path, AWS_ACCESS_KEY_ID="right", AWS_SECRET_ACCESS_KEY="wrong"
        )
    finally:
        server.terminate()
        server.wait(60)
    assert code == 3, "before anything starts"
    assert "s3://bucket: " in said
    assert "signature" in said.lower() or "forbidden" in said.lower()
    assert "look at AWS_SECRET_ACCESS_KEY and region" in said


@pytest.mark.parametrize(("kind", "port"), [("nfs", 2049), ("s3", 7070), ("xrootd", 1094)])
def test_a_port_that_is_taken(kind: str, port: int, context: TargetContext) -> None:
    target = made(kind)
    clients = client_nodes(None, 1)
    with Cluster.build(context.journal, [*clients, *target.nodes_wanted(None)]) as cluster:
        node = cluster["store-0"]
        listen = (
            "import socket, sys; s = socket.create_server((sys.argv[1], int(sys.argv[2]))); "
            "print(flush=True); input()"
        )
        taken = subprocess.Popen(
            node.command([sys.executable, "-c", listen, node.address, str(port)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert taken.stdout is not None
        taken.stdout.readline()
        try:
            within = TargetContext(
                context.work_dir, context.journal, cluster=cluster, client_nodes=("node-0",)
            )
            with pytest.raises(
                HeadraceError, match=rf"port {port} of store-0 \({node.address}\) cannot be used"
            ):
                target.prepare(within)
        finally:
            taken.kill()
            taken.wait()


def test_a_namespace_that_a_crash_left_is_named_and_undone(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        STUDY.format(target='kind = "xrootd"').replace("events = 2000", "events = 2_000_000")
    )
    environment = {
        **os.environ,
        "HEADRACE_JOURNAL_DIR": str(tmp_path / "journal"),
        "TMPDIR": str(tmp_path),
    }
    run = subprocess.Popen(
        [*HEADRACE, "run", "study.toml", "--results", "crashed"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not namespaces_of(tmp_path / "journal") and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    left = namespaces_of(tmp_path / "journal")
    assert left

    def headrace(*words: str) -> str:
        done = run_command(words, tmp_path, environment)
        assert "Traceback" not in done.stderr
        return " ".join((done.stdout + done.stderr).split())

    (tmp_path / "other.toml").write_text(STUDY.format(target='kind = "path"\npath = "."'))
    said = headrace("run", "other.toml", "--results", "other")
    assert "a server that cannot be had" in said
    assert "headrace undo" in said
    headrace("undo")
    assert not left & namespaces()
    assert processes_of(str(tmp_path)) == []
