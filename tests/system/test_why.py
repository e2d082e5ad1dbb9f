"""`headrace why` on real programs that make what it has to name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.datasets import DatasetSpec, materialise
from headrace.faults.throttle import Throttle, ThrottleOptions
from headrace.profiles.steps import load
from headrace.system.page_cache import drop_files
from headrace.targets import TargetContext
from judged import IN_ORDER, Judged, decided, kept, part, why, written
from served_targets import made, standing
from workspace import HEADRACE, Workspace

AGE_S = (
    "time.clock_gettime(time.CLOCK_BOOTTIME)"
    " - int(open('/proc/self/stat').read().rpartition(')')[2].split()[19])"
    " / os.sysconf('SC_CLK_TCK')"
)
"""Time since a program began, in Python: on a busy machine its start takes long."""


def spin(cpu_s: float) -> str:
    """Return a program that computes for so long."""
    return (
        f"import time\nend = time.process_time() + {cpu_s}\n"
        "while time.process_time() < end: sum(range(999))"
    )


SPIN = spin(1.5)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, tmp_path / "cache")


def test_a_loop_is_limited_by_the_cpu_and_no_storage_would_help(workspace: Workspace) -> None:
    # Long beside its start, which may wait for storage on a busy machine, and for enough samples.
    verdict, ended = decided(
        lambda cpu_s: why(workspace, sys.executable, "-c", f"{spin(cpu_s)}\nprint('done')"), 4
    )
    assert ended.stdout == "done\n"
    # Other programs may use the CPUs, too.
    assert verdict["limit"]["kind"] in ("cpu", "wait-cpu")
    assert part(verdict, "cpu", "wait-cpu") > 0.9
    assert part(verdict, "block", "network") < 0.1
    assert (workspace.place / "kept" / "profile.toml").exists()


def test_a_verdict_that_is_not_kept_loads_nothing_for_its_page(tmp_path: Path) -> None:
    """A job's control group may have little memory left: `why` would end by SIGKILL."""
    command = [sys.executable, "-X", "importtime", "-m", "headrace", "why"]
    for options, loaded in (([], False), (["--page", str(tmp_path / "why.html")], True)):
        ended = subprocess.run(
            [*command, *options, "--", "true"], stderr=subprocess.PIPE, text=True, check=True
        )
        assert (" headrace.verdict.page\n" in ended.stderr) == loaded


def test_two_processes_on_one_core_wait_for_it(workspace: Workspace) -> None:
    both = '"$0" -c "$1" & "$0" -c "$1" & wait'
    core = str(min(os.sched_getaffinity(0)))
    on_one = ("taskset", "-c", core, "sh", "-c", both, sys.executable)
    # Long beside their starts, which may wait for storage on a busy machine.
    verdict, ended = decided(lambda cpu_s: why(workspace, *on_one, spin(cpu_s)), 3)
    assert part(verdict, "wait-cpu") > 0.4
    if verdict["limit"]["kind"] == "wait-cpu":
        assert "fewer jobs at once" in ended.stderr


def test_a_program_that_sleeps_waits_for_nothing_of_this_machine(workspace: Workspace) -> None:
    sleep = f"import os, time; time.sleep(max(2, 3 * ({AGE_S})))\n"
    verdict, ended = decided(lambda times: why(workspace, sys.executable, "-c", sleep * times), 1)
    assert verdict["limit"]["kind"] == "sleep", verdict
    assert part(verdict, "sleep") > 0.6
    assert "it sleeps" in ended.stderr


def test_a_client_waits_for_its_connection(workspace: Workspace) -> None:
    serve = """
import socket, sys, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
accepted, _ = server.accept()
time.sleep(max(2, 3 * float(accepted.recv(100))) * int(sys.argv[1]))
accepted.sendall(b"late")
"""
    receive = f"""
import os, socket, sys, time
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as server:
    server.sendall(str({AGE_S}).encode())
    server.recv(10)
"""
    ports: list[str] = []

    def judge(times: int) -> Judged:
        command = [sys.executable, "-c", serve, str(times)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            ports.append(server.stdout.readline().strip())
            return why(workspace, sys.executable, "-c", receive, ports[-1])

    verdict, ended = decided(judge, 1)
    assert verdict["limit"]["kind"] == "connection", verdict
    assert f"127.0.0.1:{ports[-1]}" in ended.stderr


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
        "#include <stdlib.h>\n#include <time.h>\n"
        "int main(int n, char **at){while(clock()<atoi(at[1])*CLOCKS_PER_SEC);return 5;}"
    )
    static = ["cc", "-static", "-o", "spin", "spin.c"]
    subprocess.run(static, cwd=workspace.place, check=True)
    verdict, ended = decided(lambda cpu_s: why(workspace, "./spin", str(cpu_s), code=5), 1)
    assert part(verdict, "cpu", "wait-cpu") > 0.8
    assert "static" in ended.stderr
    command = ("env", "-i", "sh", "-c")
    verdict, ended = decided(
        lambda cpu_s: why(workspace, *command, f"{sys.executable} -c '{spin(cpu_s)}'"), 1
    )
    assert part(verdict, "cpu", "wait-cpu") > 0.8


RANDOM = """
import os, random, sys
handle = os.open(sys.argv[1], os.O_RDONLY)
size, chosen = os.fstat(handle).st_size, random.Random(1)
for _ in range(int(sys.argv[2])):
    os.pread(handle, 4096, chosen.randrange(size // 4096) * 4096)
"""


@pytest.mark.quiet(seconds=23)  # shares of time: jobs of other tests would wait for the CPUs
@pytest.mark.usefixtures("needs_root")
def test_reads_of_an_emulated_disk(workspace: Workspace, context: TargetContext) -> None:
    """At random, in order, and warm: the limit, and what simulations advise."""
    target = made("block", drive="seagate-st3750640ns", size="256 MiB")
    directory = target.prepare(context).directory
    try:
        assert directory is not None
        file = written(directory)
        verdict, ended = why(workspace, sys.executable, "-c", RANDOM, str(file), "500")
        device = verdict["observation"]["accesses"][0]["place"]["name"]
        assert (verdict["limit"]["kind"], verdict["limit"]["where"]) == ("block", device)
        assert device.startswith("loop")
        assert "reads of 4 KiB at random over 9" in ended.stderr
        advice = verdict["advice"]
        assert advice["present_s"] == pytest.approx(advice["measured_s"], rel=0.15), advice
        saves = {
            each["name"]: 1 - each["seconds"] / advice["present_s"] for each in advice["changes"]
        }
        # Calls last longer where other programs have the CPUs: that is in the tolerance.
        seen = verdict["observation"]
        waits = seen["accesses"][0]["waited_s"] / seen["wall_s"]
        assert saves["a SATA SSD"] == pytest.approx(waits, abs=0.15)
        assert saves["an NVMe drive"] >= saves["a SATA SSD"] - 0.02
        assert saves["files in reading order"] > waits / 2
        assert abs(saves["read-ahead of 4 MiB"]) < 0.05
        page = (workspace.place / "kept" / "verdict.html").read_text()
        assert "reads of 4 KiB at random" in page and "a SATA SSD" in page
        assert "http" not in re.sub(r"http-equiv", "", page), "the page requests nothing"
        shown = workspace.run("profile", "show", "kept/profile.toml")
        assert "reads of 4 KiB at random over 9" in shown.stdout, shown.stdout
        assert "a SATA SSD" in shown.stdout

        assert drop_files([file]) == 0
        verdict, ended = why(workspace, sys.executable, "-c", IN_ORDER, str(file))
        (there,) = [
            each for each in verdict["observation"]["accesses"] if each["place"]["name"] == device
        ]
        assert there["random_fraction"] < 0.1
        assert part(verdict, "block") > 0.5 * (1 - part(verdict, "wait-cpu"))
        advice = verdict["advice"]
        if advice is None:  # other programs had the CPUs for most of the time
            assert verdict["limit"]["kind"] == "wait-cpu"
        elif abs(advice["present_s"] / advice["measured_s"] - 1) <= 0.15:
            saves = {each["name"]: each["seconds"] for each in advice["changes"]}
            assert saves["a SATA SSD"] < 0.6 * advice["present_s"]
        else:  # a loaded machine: it says so, and advises nothing
            assert "no advice" in ended.stderr.lower()
            assert not advice["changes"]

        file.read_bytes()
        verdict, ended = why(workspace, sys.executable, "-c", f"{SPIN}\n{RANDOM}", str(file), "300")
        assert part(verdict, "block") < 0.15
        assert verdict["advice"] is None
    finally:
        target.release(context)


@pytest.mark.quiet  # shares of time: jobs of other tests would wait for the same CPUs
@pytest.mark.usefixtures("needs_root")
def test_reads_in_order_with_a_large_read_ahead(
    workspace: Workspace, context: TargetContext
) -> None:
    """As disks of clouds have it: megabytes come at once, and most reads wait for nothing."""
    target = made("block", image=str(workspace.place / "disk.img"), size="512 MiB")
    limit = Throttle(ThrottleOptions.model_validate({"what": "throttle", "read_rate": "64 MB/s"}))
    location = target.prepare(context)
    try:
        assert location.directory is not None
        file = written(location.directory, 320 << 20)
        number = file.stat().st_dev
        queue = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/queue")
        (queue / "read_ahead_kb").write_text("8192")
        limit.inject(location, context.journal)
        verdict, ended = why(workspace, sys.executable, "-c", IN_ORDER, str(file))
    finally:
        limit.lift()
        target.release(context)
    assert verdict["observation"]["accesses"][0]["place"]["read_ahead_bytes"] == 8 << 20
    advice = verdict["advice"]
    assert advice is not None and len(advice["changes"]) >= 2, ended.stderr
    assert advice["present_s"] == pytest.approx(advice["measured_s"], rel=0.15), ended.stderr


THREADS = """
import os, random, sys, threading
handle = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
size = os.fstat(handle).st_size
def read(seed):
    chosen = random.Random(seed)
    for _ in range(250):
        os.pread(handle, 4096, chosen.randrange(size // 4096) * 4096)
for each in (made := [threading.Thread(target=read, args=(n,)) for n in range(4)]): each.start()
for each in made: each.join()
"""


@pytest.mark.quiet  # shares of time: jobs of other tests would wait for the same CPUs
@pytest.mark.usefixtures("needs_root")
def test_reads_of_several_threads_that_overlap(
    workspace: Workspace, context: TargetContext
) -> None:
    """1000 reads at 250 per second take 4 s, whether four threads wait for them or one."""
    target = made("block", image=str(workspace.place / "disk.img"), size="512 MiB")
    limit = Throttle(ThrottleOptions.model_validate({"what": "throttle", "read_iops": 250}))
    location = target.prepare(context)
    try:
        assert location.directory is not None
        file = written(location.directory, 256 << 20)
        limit.inject(location, context.journal)
        verdict, ended = why(workspace, sys.executable, "-c", THREADS, str(file))
    finally:
        limit.lift()
        target.release(context)
    assert verdict["observation"]["accesses"][0]["waited_s"] > 2 * verdict["observation"]["wall_s"]
    advice = verdict["advice"]
    assert advice is not None and len(advice["changes"]) >= 2, ended.stderr
    # Of all threads: the first one only waits for the others.
    waited_s = part(verdict, "wait-cpu") * verdict["observation"]["wall_s"]
    assert advice["wait_cpu_s"] == pytest.approx(waited_s, rel=1e-6)
    assert advice["present_s"] == pytest.approx(advice["measured_s"], rel=0.15), ended.stderr


@pytest.mark.usefixtures("needs_root")
def test_threads_that_read_beside_one_that_computes(
    workspace: Workspace, context: TargetContext
) -> None:
    """Whether faster storage would save anything is not seen, though four threads wait for it."""
    target = made("block", image=str(workspace.place / "disk.img"), size="512 MiB")
    limit = Throttle(ThrottleOptions.model_validate({"what": "throttle", "read_iops": 250}))
    location = target.prepare(context)
    # It releases the lock of the interpreter.
    joins, computes = "each.join()", "\n while each.is_alive(): hashlib.sha256(bytes(1 << 20))"
    beside = f"import hashlib{THREADS.replace(joins, computes)}"
    try:
        assert location.directory is not None
        file = written(location.directory, 256 << 20)
        limit.inject(location, context.journal)
        verdict, ended = why(workspace, sys.executable, "-c", beside, str(file))
    finally:
        limit.lift()
        target.release(context)
    seen = verdict["observation"]
    assert seen["accesses"][0]["waited_s"] > seen["wall_s"]
    assert verdict["limit"]["kind"] in ("cpu", "wait-cpu"), ended.stderr
    assert part(verdict, "cpu", "wait-cpu") > 0.8, ended.stderr
    least_s, most_s = seen["waits_bounds_s"]
    assert least_s < 0.2 * seen["wall_s"] and most_s > 0.5 * seen["wall_s"]


@pytest.mark.quiet  # shares of time
@pytest.mark.usefixtures("needs_root")
def test_reads_over_nfs(workspace: Workspace, context: TargetContext) -> None:
    with standing(made("nfs"), context) as (location, _):
        folder = location.node_directories[0]
        # Large: what was read once is in the page cache.
        file = written(folder, 256 << 20)
        command = (sys.executable, "-c", RANDOM, str(file))
        verdict, ended = decided(lambda reads: why(workspace, *command, str(reads)), 4000)
    assert verdict["limit"]["kind"] == "network", verdict
    assert Path(verdict["limit"]["where"]) in (folder, *folder.parents)
    assert verdict["advice"] is not None or "not simulated" in ended.stderr.lower()
    if verdict["advice"] is not None and verdict["advice"]["changes"]:
        names = [each["name"] for each in verdict["advice"]["changes"]]
        assert "a local copy on a SATA SSD" in names


@pytest.mark.parametrize("reader", ["uproot", "RDataFrame"])
def test_analyses_of_events(workspace: Workspace, reader: str) -> None:
    """The user's own program over generated events: recorded, and limited by its CPU time."""
    if reader == "RDataFrame":
        pytest.importorskip("ROOT")
    spec = DatasetSpec.model_validate({"events": 20_000, "files": 1})
    (file,) = materialise(spec, workspace.cache)
    codes = {
        "uproot": "import sys, uproot\n"
        "for _ in range(int(sys.argv[2])):\n"
        " with uproot.open(sys.argv[1]) as f:\n"
        "  tree = f[f.keys()[0]]; print(sum(len(tree[b].array()) for b in tree.keys()))",
        "RDataFrame": "import sys, ROOT\n"
        "with ROOT.TFile.Open(sys.argv[1]) as f: name = f.GetListOfKeys()[0].GetName()\n"
        "d = ROOT.RDataFrame(name, sys.argv[1])\n"
        "for _ in range(int(sys.argv[2])): print(d.Count().GetValue())",
    }
    command = (sys.executable, "-c", codes[reader], str(file))
    verdict, ended = decided(lambda times: why(workspace, *command, str(times)), 3)
    assert ended.stdout.strip()
    assert verdict["limit"]["kind"] not in ("connection", "network", "sleep"), verdict
    assert part(verdict, "cpu", "wait-cpu") > 0.2
    recorded = load(str(workspace.place / "kept" / "profile.toml"))
    assert str(file) in {each.path for each in recorded.files}


def test_a_program_that_runs_already(workspace: Workspace) -> None:
    """By its process id: what it does, and that only its end or the time ends the watch."""
    for code, kind in ((spin(60), "cpu"), ("import time; time.sleep(300)", "sleep")):
        code = f"print('started', flush=True)\n{code}"
        running = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert running.stdout is not None
        assert running.stdout.readline() == b"started\n"

        def judge(seconds: int, pid: str = str(running.pid)) -> Judged:
            older = workspace.place / "kept" / "profile.toml"
            older.parent.mkdir(exist_ok=True)
            older.write_text('steps_file = "of an earlier program"\n')
            ended = workspace.run("why", "--pid", pid, "--for", f"{seconds} s", "--keep", "kept")
            assert ended.returncode == 0, ended.stderr
            assert not older.exists()
            return kept(workspace), ended

        try:
            verdict, _ = decided(judge, 2)
        finally:
            running.kill()
            running.wait()
            running.stdout.close()
        assert verdict["limit"]["kind"] in (kind, "wait-cpu"), verdict
        assert part(verdict, kind, "wait-cpu") > 0.6
        assert "its reads are not known" in " ".join(verdict["sentences"]).lower()
        assert str(running.pid) in verdict["observation"]["command"][0]
    gone = workspace.run("why", "--pid", str(running.pid))
    assert (gone.returncode, "no such process" in gone.stderr) == (2, True)


def test_a_program_that_ends_before_the_time(workspace: Workspace) -> None:
    """It computes for so long after `why` has made its folder, as a watch may begin late."""
    folder = workspace.place / "kept"
    begin = f"import os\nwhile not os.path.exists({str(folder)!r}): pass\n"

    def judge(cpu_s: int) -> Judged:
        with subprocess.Popen([sys.executable, "-c", begin + spin(cpu_s)]) as running:
            words = ("why", "--pid", str(running.pid), "--for", "10 min", "--keep", folder)
            ended = workspace.run(*words)
        assert ended.returncode == 0, ended.stderr
        return kept(workspace), ended

    verdict, _ = decided(judge, 2)
    assert part(verdict, "cpu", "wait-cpu") > 0.6, verdict


def test_wrong_usage(workspace: Workspace) -> None:
    for words in (
        ("why",),
        ("why", "--pid", "1", "--", "true"),
        ("why", "--pid", "1", "--for", "x"),
        ("why", "--keep", "/proc/here", "--", "true"),
    ):
        ended = workspace.run(*words)
        assert ended.returncode == 2, ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.usefixtures("needs_root")
def test_a_remote_file_over_xrootd(
    workspace: Workspace, context: TargetContext, tmp_path: Path
) -> None:
    """Reads over a slow link: every one waits for the connection."""
    source = tmp_path / "data.bin"
    source.write_bytes(os.urandom(6 << 20))
    target = made("xrootd")
    code = """
import sys
from XRootD import client
file = client.File()
assert file.open(sys.argv[1])[0].ok
for number in range(int(sys.argv[2])):
    assert len(file.read(number % 60 * 100_000, 100_000)[1]) == 100_000
"""
    with standing(target, context) as (location, within):
        (held,) = target.upload([source], "data", within, lambda _: None)
        assert within.cluster is not None
        node = within.cluster["node-0"]
        (server,) = (each for each in location.servers.values())
        slow = [
            "tc",
            "qdisc",
            "replace",
            "dev",
            "eth0",
            "root",
            "tbf",
            "rate",
            "16mbit",
            "burst",
            "64kb",
            "latency",
            "1s",
        ]
        inside = ["nsenter", f"--net=/proc/{server.pids[0]}/ns/net", "--", *slow]
        subprocess.run(inside, check=True)
        command = ("why", "--keep", "kept", "--", sys.executable, "-c", code, str(held.url))

        def judge(reads: int) -> Judged:
            ended = subprocess.run(
                node.command([str(HEADRACE), *command, str(reads)]),
                cwd=workspace.place,
                env={**os.environ, **location.environment},
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            assert ended.returncode == 0, ended.stderr
            return kept(workspace), ended

        verdict, ended = decided(judge, 60)
    assert verdict["limit"]["kind"] == "connection", ended.stderr
    use = verdict["observation"]["connection_use"]
    assert use["received_bytes"] / use["requests"] == pytest.approx(100_000, rel=0.2)
    saves = {each["name"]: each["seconds"] for each in verdict["advice"]["changes"]}
    assert "a local copy on a SATA SSD" in saves, saves
    # The link is full: more requests at once would not be faster, except while the program or the
    # server waits for a CPU of a busy machine.
    present_s = verdict["advice"]["present_s"]
    assert saves.get("8 requests in flight", present_s) > 0.7 * present_s, saves
