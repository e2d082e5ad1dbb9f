"""`headrace why` on real programs that make what it has to name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workspace import Workspace

SPIN = (
    "import time\nend = time.process_time() + 1.5\nwhile time.process_time() < end: sum(range(999))"
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, tmp_path / "cache")


def why(
    workspace: Workspace, *command: str, code: int = 0
) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    """Return the verdict, and the command that gave it."""
    ended = workspace.run("why", "--keep", "kept", "--", *command)
    assert ended.returncode == code, ended.stderr
    lines = ended.stderr.splitlines()[-5:]
    assert max(map(len, lines)) <= 80
    return json.loads((workspace.place / "kept" / "verdict.json").read_text()), ended


def part(verdict: dict[str, Any], *kinds: str) -> float:
    """Return the part of the wall time of these kinds."""
    seen = verdict["observation"]
    return sum(each["seconds"] for each in seen["shares"] if each["kind"] in kinds) / seen["wall_s"]


def test_a_loop_is_limited_by_the_cpu_and_no_storage_would_help(workspace: Workspace) -> None:
    verdict, ended = why(workspace, sys.executable, "-c", f"{SPIN}\nprint('done')")
    assert ended.stdout == "done\n"
    # Other programs may use the CPUs, too.
    assert verdict["limit"]["kind"] in ("cpu", "wait-cpu")
    assert part(verdict, "cpu", "wait-cpu") > 0.9
    assert part(verdict, "block", "network") < 0.1
    assert (workspace.place / "kept" / "profile.toml").exists()


def test_two_processes_on_one_core_wait_for_it(workspace: Workspace) -> None:
    both = '"$0" -c "$1" & "$0" -c "$1" & wait'
    core = str(min(os.sched_getaffinity(0)))
    verdict, ended = why(workspace, "taskset", "-c", core, "sh", "-c", both, sys.executable, SPIN)
    assert part(verdict, "wait-cpu") > 0.4
    if verdict["limit"]["kind"] == "wait-cpu":
        assert "fewer jobs at once" in ended.stderr


def test_a_program_that_sleeps_waits_for_nothing_of_this_machine(workspace: Workspace) -> None:
    verdict, ended = why(workspace, sys.executable, "-c", "import time; time.sleep(3)")
    assert verdict["limit"]["kind"] == "sleep", verdict
    assert part(verdict, "sleep") > 0.6
    assert "it sleeps" in ended.stderr


def test_a_client_waits_for_its_connection(workspace: Workspace) -> None:
    serve = """
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
accepted, _ = server.accept()
time.sleep(2)
accepted.sendall(b"late")
"""
    server = subprocess.Popen([sys.executable, "-c", serve], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    receive = f"import socket; socket.create_connection(('127.0.0.1', {port})).recv(10)"
    try:
        verdict, ended = why(workspace, sys.executable, "-c", receive)
    finally:
        server.wait(20)
    assert verdict["limit"]["kind"] == "connection", verdict
    assert f"127.0.0.1:{port}" in ended.stderr


def test_a_short_program_is_not_judged(workspace: Workspace) -> None:
    verdict, ended = why(workspace, "/bin/true")
    assert verdict["limit"]["kind"] == "too-short"
    assert "too short" in ended.stderr


def test_exit_code_signal_and_a_missing_program(workspace: Workspace) -> None:
    assert why(workspace, "sh", "-c", "exit 3", code=3)[0]["observation"]["exit_code"] == 3
    verdict, ended = why(workspace, "sh", "-c", "kill -TERM $$", code=143)
    assert verdict["observation"]["exit_code"] == -15
    assert "SIGTERM" in ended.stderr
    missing = workspace.run("why", "--", "./nosuch")
    assert (missing.returncode, missing.stderr) == (2, "headrace: ./nosuch: no such program\n")


def test_programs_without_the_recorder(workspace: Workspace) -> None:
    """A static program, and one that drops LD_PRELOAD: what /proc gives, and what is missing."""
    (workspace.place / "spin.c").write_text(
        "#include <time.h>\nint main(){while(clock()<CLOCKS_PER_SEC);return 5;}"
    )
    static = ["cc", "-static", "-o", "spin", "spin.c"]
    subprocess.run(static, cwd=workspace.place, check=True)
    verdict, ended = why(workspace, "./spin", code=5)
    assert part(verdict, "cpu", "wait-cpu") > 0.8
    assert "static" in ended.stderr
    spin = f"{sys.executable} -c '{SPIN}'"
    verdict, ended = why(workspace, "env", "-i", "sh", "-c", spin)
    assert part(verdict, "cpu", "wait-cpu") > 0.8
