"""Studies on hosts reached by SSH: a real server on loopback, and the client's configuration."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from headrace.system.identity import start_ticks
from headrace.system.waiting import wait_until
from ssh_server import SshServer, children_of, node_processes, ssh_server
from workspace import Workspace

STUDY = """
headrace = 1
title = "by SSH"
[target.shared]
kind = "path"
path = "{storage}/shared data"
create = true
[workload.job]
kind = "command"
command = ["sh", "-c", "echo $PPID; sleep 1"]
[plan]
repeats = {{ min = 1 }}
[run]
on = "ssh://{hosts}"
nodes = {nodes}
slots = 2
cache = "as-is"
foreign_load = "warning"
start_spread = 100
shortest = "0.1 s"
{more}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    place = tmp_path_factory.mktemp("ssh")
    journals = place / "journals"
    with ssh_server(place / "ssh", {"HEADRACE_JOURNAL_DIR": str(journals)}) as found:
        yield found
    assert not journals.exists() or list(journals.iterdir()) == [], "nothing is left to undo"


@pytest.fixture
def on_hosts(workspace: Workspace, server: SshServer) -> Workspace:
    workspace.environment["PATH"] = server.path
    return workspace


@pytest.fixture
def memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headrace-test-", dir="/dev/shm") as folder:
        yield Path(folder)


def test_jobs_run_on_every_host_and_come_back(
    on_hosts: Workspace, memory: Path, server: SshServer
) -> None:
    text = STUDY.format(storage=memory, hosts="alpha,beta", nodes=2, more="")
    ended = on_hosts.run("run", on_hosts.study(text), "--results", "results")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (trial,) = on_hosts.trials()
    assert trial["status"] == "done" and trial["validity"]["valid"], trial["validity"]
    assert trial["run"]["on"] == "ssh://alpha,beta" and trial["run"]["nodes"] == 2
    outputs = sorted(on_hosts.place.glob("results/trials/*/command-job-*.out"))
    assert len({output.read_text() for output in outputs}) == 4, "each job is a process of its own"
    assert wait_until(lambda: not children_of(server), 30, 0.1), "a connection is left"
    assert not (memory / "shared data").exists(), "made for the study, removed after it"


def test_the_status_of_nodes_is_shown(on_hosts: Workspace) -> None:
    shown = on_hosts.run("cluster", "status", "--on", "ssh://alpha,beta", "--json")
    assert shown.returncode == 0, shown.stderr
    nodes = json.loads(shown.stdout)
    assert [node["node"] for node in nodes] == ["node-0", "node-1"]
    for node in nodes:
        assert node["headrace"] == version("headrace") and node["host"] == socket.gethostname()
        assert node["cpus"] >= 1 and node["memory_bytes"] > 1 << 20
        assert abs(node["clock_offset_s"]) <= node["clock_uncertainty_s"], "the same clock"
        assert ("root" in node["can"]) == (os.geteuid() == 0)
    on_hosts.environment["COLUMNS"] = "80"
    table = on_hosts.run("cluster", "status", "--on", "ssh://alpha", "--nodes", "1")
    assert table.returncode == 0 and max(map(len, table.stdout.splitlines())) <= 80, table.stdout
    assert version("headrace") in table.stdout
    refused = on_hosts.run("cluster", "status", "--on", "local")
    assert refused.returncode == 2 and "ssh://HOST,HOST" in refused.stderr


@pytest.mark.parametrize("free_bytes", [0, 200_000], ids=["full", "nearly full"])
def test_a_node_with_little_temporary_space_is_named(
    needs_root: None, on_hosts: Workspace, server: SshServer, free_bytes: int
) -> None:
    """Programs that follow TMPDIR fail in it, though Python passes over one that is full."""
    full = on_hosts.place / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "headrace-test", full], check=True)
    enter = server.enter_beta.read_text()
    server.enter_beta.write_text(enter.replace("\neval", f"\nexport TMPDIR={full}\neval"))
    try:
        (full / "others").write_bytes(bytes((1 << 20) - free_bytes))
        nodes = ("--on", "ssh://alpha,beta")
        shown = on_hosts.run("cluster", "status", *nodes)
        examined = on_hosts.run("cluster", "doctor", *nodes)
        plain = on_hosts.run("cluster", "status", *nodes, "--json")
    finally:
        server.enter_beta.write_text(enter)
        subprocess.run(["umount", full], check=True)
    assert shown.returncode == 0, shown.stderr
    for ended in (shown, examined):
        said = "".join(ended.stdout.split())
        assert f"freein{full}" in said and "node-1:" in said, ended.stdout
    beta = json.loads(plain.stdout)[1]
    assert beta["temporary"] == str(full) and beta["temporary_free_bytes"] <= free_bytes


def test_the_status_of_the_other_nodes_is_shown_when_hosts_are_down(on_hosts: Workspace) -> None:
    named = ("cluster", "status", "--on", "ssh://alpha,closed,beta,strangers")
    shown = on_hosts.run(*named, "--json")
    assert shown.returncode == 6, shown.stdout + shown.stderr
    assert [node["node"] for node in json.loads(shown.stdout)] == ["node-0", "node-2"]
    assert "node-1 (closed): connection refused" in shown.stderr
    assert "node-3 (strangers): its host key is not known" in shown.stderr
    table = on_hosts.run(*named)
    assert table.returncode == 6 and "node-2" in table.stdout and "all nodes" not in table.stdout
    assert "node-1 (closed)" in table.stderr and "node-3 (strangers)" in table.stderr
    examined = on_hosts.run("cluster", "doctor", "--on", "ssh://alpha,closed,beta")
    assert examined.returncode == 3 and "all nodes" not in examined.stdout
    assert "the nodes reached: one machine" in examined.stdout


def test_the_doctor_says_what_is_wrong_with_nodes_and_what_a_study_lacks(
    on_hosts: Workspace, memory: Path
) -> None:
    on_hosts.environment["COLUMNS"] = "80"
    shown = on_hosts.run(
        *("cluster", "doctor", "--on", "ssh://alpha,closed"),
        *("--shared", memory, "--shared", memory / "missing", "--json"),
    )
    assert shown.returncode == 3, shown.stdout + shown.stderr
    told = json.loads(shown.stdout)
    (cluster,) = told["clusters"]
    assert not told["able"] and [node["node"] for node in cluster["nodes"]] == ["node-0"]
    fatal = [each for each in cluster["findings"] if each["fatal"]]
    assert len(fatal) == 3 and "node-1 (closed): connection refused" in fatal[0]["what"]
    assert {tuple(each["nodes"]) for each in fatal[1:]} == {(), ("node-0",)}
    assert all(f"cannot write into {memory}/missing" in each["what"] for each in fatal[1:])
    assert not list(memory.iterdir()), "what was written into the folder is removed"

    text = STUDY.format(storage=memory, hosts="alpha,beta", nodes=2, more="")
    good = on_hosts.run("cluster", "doctor", on_hosts.study(text))
    assert good.returncode == 0, good.stdout + good.stderr
    lines = good.stdout.splitlines()
    assert max(map(len, lines)) <= 80 and "ssh://alpha,beta: 2 nodes reached" in lines
    assert "all nodes: one machine: they share a kernel" in good.stdout
    assert not list(memory.iterdir())
    own = STUDY.format(storage=memory, hosts="alpha,beta", nodes=2, more="").replace(
        "create = true", 'create = true\non = "node"'
    )
    bad = on_hosts.run("cluster", "doctor", on_hosts.study(own))
    said = " ".join(bad.stdout.split())
    assert bad.returncode == 3 and "would be the storage of both" in said, bad.stdout
    assert "needed" in said and "to do: give each its own" in said
    for words, why in (
        (("study.toml", "--on", "ssh://gamma"), "has no trials on ssh://gamma"),
        ((), "no nodes are named"),
    ):
        refused = on_hosts.run("cluster", "doctor", *words)
        assert refused.returncode == 2 and why in refused.stderr, refused.stderr
    on_hosts.study(text.replace('on = "ssh', '# "ssh').replace("nodes = 2", ""))
    refused = on_hosts.run("cluster", "doctor", "study.toml")
    assert refused.returncode == 2 and "on this machine alone" in refused.stderr


SUSTAINED = """
load = "sustained"
duration = "3 s"
"""


def test_a_lost_node_returns_and_the_trial_is_run_again(
    on_hosts: Workspace, memory: Path, server: SshServer
) -> None:
    text = STUDY.format(storage=memory, hosts="alpha,beta", nodes=2, more=SUSTAINED)
    text = text.replace("slots = 2\n", "").replace(
        "echo $PPID; sleep 1", f"touch {memory}/began-$$; sleep 0.3"
    )
    study = on_hosts.study(text + '[factors]\n"run.slots" = [1, 2]\n')

    def kill() -> None:
        assert wait_until(lambda: len(list(memory.glob("began-*"))) >= 2, 60, 0.05)
        os.kill(node_processes(server)[0], signal.SIGKILL)

    killing = threading.Thread(target=kill)
    killing.start()
    ended = on_hosts.run("run", study, "--results", "results")
    killing.join()
    assert ended.returncode == 5 and "Traceback" not in ended.stderr, ended.stdout + ended.stderr
    first, second = sorted(on_hosts.trials(), key=lambda trial: trial["index"])
    assert "node-lost" in [reason["code"] for reason in first["validity"]["reasons"]]
    (lost,) = [node for node in first["node_facts"] if "events" in node]
    assert [event["what"] for event in lost["events"]] == ["lost"]
    assert second["validity"]["valid"], second["validity"]
    (back,) = [node for node in second["node_facts"] if "events" in node]
    assert back["name"] == lost["name"] and back["start_first_s"] is not None
    assert [event["what"] for event in back["events"]] == ["returned"]
    again = on_hosts.run("resume", "results", "--retry-invalid")
    assert again.returncode == 0, again.stdout + again.stderr
    assert [trial["validity"]["valid"] for trial in on_hosts.trials()] == [True, True]
    assert [path.name for path in on_hosts.place.glob("results/retried/*")] == [f"{first['id']}.1"]
    assert wait_until(lambda: not children_of(server), 30, 0.1), "a connection is left"


def test_a_killed_command_is_resumed_and_nothing_is_run_twice(
    on_hosts: Workspace, memory: Path, server: SshServer
) -> None:
    """It is killed in its second trial, whose jobs do not end by themselves."""
    job = (
        f"echo $$ > {memory}/began-$$; "
        f"[ $(ls {memory} | grep -c began-) -le 4 ] || [ -e {memory}/resumed ] || exec sleep 600; "
        "sleep 0.3"
    )
    text = STUDY.format(storage=memory, hosts="alpha,beta", nodes=2, more="")
    text = text.replace("echo $PPID; sleep 1", job).replace("min = 1", "min = 2")
    command = on_hosts.start("run", on_hosts.study(text), "--results", "results")
    finished = on_hosts.place / "results" / "trials"
    began = lambda: [mark for mark in memory.glob("began-*") if mark.stat().st_size]  # noqa: E731
    assert wait_until(lambda: len(began()) == 8, 120, 0.05), command.communicate()
    (first,) = finished.glob("*/trial.json")
    before = first.read_bytes()
    command.kill()
    command.communicate()
    assert wait_until(lambda: not children_of(server), 60, 0.1), "a node process is left"
    assert all(start_ticks(int(mark.read_text())) is None for mark in began()), "a job is left"
    assert list((server.log.parents[1] / "journals").iterdir()) == [], "changes of a node are left"

    (memory / "resumed").touch()
    resumed = on_hosts.run("resume", "results")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert first.read_bytes() == before, "a finished trial is not run again"
    assert [trial["validity"]["valid"] for trial in on_hosts.trials()] == [True, True]
    assert len(list(finished.iterdir())) == 2, "one record of each"
    assert len(began()) == 12, "four jobs of each trial, and those that were killed"
    undone = on_hosts.run("undo")
    assert undone.returncode == 0, undone.stdout
    assert not (memory / "shared data").exists()
    assert wait_until(lambda: not children_of(server), 30, 0.1), "a connection is left"


def test_a_host_that_is_down_when_a_target_is_set_up_can_be_tried_again(
    on_hosts: Workspace, memory: Path, server: SshServer
) -> None:
    """It was there when the study was checked."""
    enter = server.enter_beta.read_text()
    down = f"[ ! -e '{on_hosts.place}/results' ] || exit 1\n"
    server.enter_beta.write_text(enter.replace("\neval", f"\n{down}eval"))
    try:
        more = 'node_patience = "1 s"'
        text = STUDY.format(storage=memory, hosts="alpha,beta", nodes=2, more=more)
        ended = on_hosts.run("run", on_hosts.study(text), "--results", "results")
    finally:
        server.enter_beta.write_text(enter)
    assert ended.returncode == 5, ended.stdout + ended.stderr
    (trial,) = on_hosts.trials()
    assert trial["status"] == "failed" and "node-1 (beta) " in trial["cause"], trial["cause"]
    assert "tried for 1 s" in trial["cause"]
    assert [reason["code"] for reason in trial["validity"]["reasons"]] == ["node-lost"]
    again = on_hosts.run("resume", "results", "--retry-invalid")
    assert again.returncode == 0, again.stdout + again.stderr
    assert [trial["validity"]["valid"] for trial in on_hosts.trials()] == [True]


def test_ctrl_c_while_hosts_are_asked_stops_before_anything_starts(
    on_hosts: Workspace, memory: Path, server: SshServer
) -> None:
    enter = server.enter_beta.read_text()
    waits = f"touch {memory}/asked; sleep 3; exit 1\n"
    server.enter_beta.write_text(enter.replace("\neval", f"\n{waits}eval"))
    text = STUDY.format(storage=memory, hosts="alpha,beta", nodes=2, more="")
    command = on_hosts.start_anew("run", on_hosts.study(text), "--results", "results")
    with command:
        try:
            assert wait_until((memory / "asked").exists, 60, 0.05)
            command.send_signal(signal.SIGINT)
            _, said = command.communicate(timeout=60)
        finally:
            command.kill()
            server.enter_beta.write_text(enter)
    assert command.returncode == 130, said
    assert "stopped; everything was restored. No trial was begun." in said
    assert "headrace resume" not in said and not (on_hosts.place / "results").exists()


OWN_FILES = """
headrace = 1
title = "files of each node"
[target.own]
kind = "path"
path = "{storage}/own {{node}}"
on = "node"
create = true
[workload.scan]
kind = "scan"
data = {{ events = 3_001, files = 2 }}
[plan]
repeats = {{ min = 1 }}
[run]
on = "ssh://alpha,beta"
feed = "packets"
nodes = 2
foreign_load = "warning"
start_spread = 100
shortest = 0
"""


@pytest.fixture
def beta_in_a_container(needs_root: None, memory: Path, server: SshServer) -> Iterator[None]:
    """The kernel of `beta` is that of `alpha` and of the test, its `memory` is its own."""
    before = server.enter_beta.read_text()
    inside = f'mount -t tmpfs none {memory} && eval "$SSH_ORIGINAL_COMMAND"'
    server.enter_beta.write_text(
        f"#!/bin/sh\nexport SSH_ORIGINAL_COMMAND\nexec unshare --mount sh -c '{inside}'\n"
    )
    yield
    server.enter_beta.write_text(before)


def test_containers_of_one_kernel_have_files_of_their_own(
    on_hosts: Workspace, memory: Path, beta_in_a_container: None
) -> None:
    study = on_hosts.study(OWN_FILES.format(storage=memory))
    on_hosts.run("run", study, "--results", "own", "--cache-dir", on_hosts.cache)
    (trial,) = on_hosts.trials("own")
    # What is in memory is never cold: that makes it invalid, and nothing else.
    reasons = {reason["code"] for reason in trial["validity"]["reasons"]}
    assert trial["status"] == "done" and reasons <= {"cache-not-cold"}, trial["cause"]
    assert trial["packets"]["events"] == 3_001

    (memory / "shared data").mkdir()
    text = STUDY.format(storage=memory, hosts="alpha,beta", nodes=2, more="")
    ended = on_hosts.run("run", on_hosts.study(text), "--results", "results")
    (trial,) = on_hosts.trials()
    assert ended.returncode == 5 and "node node-1 does not see the files of" in trial["cause"]


@pytest.fixture(scope="module")
def strange_pythons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pythons without Headrace, and with another version of it."""
    place = tmp_path_factory.mktemp("pythons with 'quotes'")
    info = place / "headrace-0.0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: headrace\nVersion: 0.0.1\n")
    older = place / "older python"
    older.write_text(f'#!/bin/sh\nPYTHONPATH="{place}" exec {sys.executable} "$@"\n')
    bare = place / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys._base_executable} -I -S "$@"\n')  # pyright: ignore
    for file in (older, bare):
        file.chmod(0o755)
    return place


def test_what_a_host_lacks_is_said_before_anything_starts(
    on_hosts: Workspace, memory: Path, strange_pythons: Path
) -> None:
    no_program = strange_pythons / "no program"
    no_program.touch(0o644)
    for hosts, nodes, python, said, remedy in (
        ("alpha,nowhere.invalid", 2, "", "the host is unknown", "~/.ssh/config"),
        ("closed", 1, "", "connection refused", "start sshd"),
        ("locked", 1, "", "does not accept a key of this user", "ssh-copy-id"),
        ("strangers", 1, "", "its host key is not known here", "compare the fingerprint"),
        ("impostor", 1, "", "its host key has changed", "ssh-keygen -R"),
        ("alpha", 2, "", "names 1 host; 2 nodes need one each", "name more"),
        ("alpha", 1, "/no/such/python", "there is no /no/such/python", "[run] python"),
        ("alpha", 1, str(no_program), f"{no_program} cannot be run there", "[run] python"),
        ("alpha", 1, str(strange_pythons / "bare"), "has no Headrace", "install Headrace"),
        ("alpha", 1, str(strange_pythons / "older python"), "has Headrace 0.0.1", "same version"),
    ):
        more = f'python = "{python}"' if python else ""
        text = STUDY.format(storage=memory, hosts=hosts, nodes=nodes, more=more)
        ended = on_hosts.run("run", on_hosts.study(text), "--results", "results")
        shown = " ".join((ended.stdout + ended.stderr).split())
        assert ended.returncode == 3, f"{hosts}, {python}: {shown}"
        assert said in shown and remedy in shown, shown
        assert not on_hosts.trials()


def test_a_program_is_looked_for_on_every_host(on_hosts: Workspace, memory: Path) -> None:
    script = on_hosts.place / "mine.sh"
    script.write_text("#!/no/such/shell\n")
    script.chmod(0o755)
    for program, what in (
        ("no-such-program", "the program no-such-program is not there"),
        ("./mine.sh", f"/no/such/shell, which the first line of {script} names, is not there"),
    ):
        text = STUDY.format(storage=memory, hosts="alpha,beta", nodes=2, more="")
        text = text.replace('["sh", "-c", "echo $PPID; sleep 1"]', f'["{program}"]')
        ended = on_hosts.run("run", on_hosts.study(text), "--results", "results")
        shown = " ".join((ended.stdout + ended.stderr).split())
        assert ended.returncode == 3, shown
        for node in ("node-0", "node-1"):
            assert f"{node}: {what}" in shown, shown
        assert not on_hosts.trials()
