"""PDUs for tests: the agent of snmpsim, with values that vary as its module `numeric` computes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from headrace.system.waiting import wait_until
from ports import free_port

USER, PASSWORD, PRIVACY_PASSWORD = "reader", "password of it", "its other one"
CONTEXT = "public"
"""snmpsim keeps the objects of a version 3 agent in contexts named as its files."""

# OID, type (2 Integer32, 4 string, 65 Counter32, 66 Gauge32), value.
OBJECTS = """
1.3.6.1.2.1.1.1.0|4|Rack PDU
1.3.6.1.4.1.318.1.1.12.1.16.0|2|410
1.3.6.1.4.1.318.1.1.26.4.3.1.5.1|2|52
1.3.6.1.4.1.318.1.1.26.6.3.1.7.2|2|17
1.3.6.1.4.1.318.1.1.26.9.4.3.1.7.1|2:numeric|function=sin,rate=7,scale=3,offset=90.5
1.3.6.1.4.1.318.1.1.26.9.4.3.1.7.2|2|33
1.3.6.1.4.1.318.1.1.26.9.4.3.1.7.3|2|-1
1.3.6.1.4.1.534.6.6.7.3.5.1.4.0.1|2|700
1.3.6.1.4.1.534.6.6.7.5.5.1.3.1.2|2|350
1.3.6.1.4.1.534.6.6.7.6.5.1.3.0.4|2|77
1.3.6.1.4.1.1718.4.1.3.3.1.3.1.1|2|512
1.3.6.1.4.1.1718.4.1.8.3.1.7.1.1.8|2|64
1.3.6.1.4.1.13742.6.3.3.4.1.7.1.1.5|66|0
1.3.6.1.4.1.13742.6.3.5.4.1.7.1.5.5|66|1
1.3.6.1.4.1.13742.6.5.2.3.1.4.1.1.5|66|600
1.3.6.1.4.1.13742.6.5.4.3.1.4.1.5.5|66|1234
1.3.6.1.4.1.99999.1|65:numeric|rate=100,initial=4294967000,wrap=1
1.3.6.1.4.1.99999.2|4|123.5
"""


@dataclass(frozen=True)
class Pdu:
    """A running agent."""

    port: int
    process: subprocess.Popen[bytes]

    @contextlib.contextmanager
    def silent(self) -> Generator[None]:
        """The agent receives requests and answers none."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def pdu(folder: Path) -> Generator[Pdu]:
    """Start an agent on the loopback interface: community public, or the user with privacy."""
    data = folder / "data"
    data.mkdir()
    (data / f"{CONTEXT}.snmprec").write_text(_sorted(OBJECTS))
    port = free_port(socket.SOCK_DGRAM)
    command = [
        *("setpriv", "--pdeathsig", "KILL", "--"),
        str(Path(sys.executable).with_name("snmpsim-command-responder")),
        f"--data-dir={data}",
        f"--cache-dir={folder / 'cache'}",
        f"--agent-udpv4-endpoint=127.0.0.1:{port}",
        f"--v3-user={USER}",
        f"--v3-auth-key={PASSWORD}",
        "--v3-auth-proto=SHA256",
        f"--v3-priv-key={PRIVACY_PASSWORD}",
        "--v3-priv-proto=AES",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, "SNMPSIM_ALLOW_ROOT": "true"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        listening = f":{port:04X} "
        assert wait_until(lambda: listening in Path("/proc/net/udp").read_text(), 60, 0.05), (
            folder / "log"
        ).read_text()
        yield Pdu(port, process)
    finally:
        process.kill()
        process.wait()


def _sorted(objects: str) -> str:
    """snmpsim looks objects up by bisection."""
    lines = objects.split("\n")
    found = [line for line in lines if line]
    return "\n".join(sorted(found, key=_numbers)) + "\n"


def _numbers(line: str) -> list[int]:
    return [int(number) for number in line.partition("|")[0].split(".")]
