"""A real SSH server with keys of its own, on loopback unless told, and its client configuration."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from headrace.system.waiting import wait_until
from ports import free_port

PATIENCE_S = 30

_SERVER = """\
Port {port}
ListenAddress {address}
HostKey {place}/host-key
AuthorizedKeysFile {place}/authorized
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
PrintMotd no
SetEnv {variables}
AcceptEnv HEADRACE_TEST_HOST
ForceCommand echo "Some shells greet everybody."; {place}/enter-$HEADRACE_TEST_HOST
"""
# A shell that is not the first, for bash: it leaves out the user's ~/.bashrc, which may take longer
# than the command.
_SHELL = {"SHLVL": "1"}
# The usual exchange of keys takes a client seven times the CPU time of this one.
# `alpha` and `beta` are two names of this machine, as a user's ~/.ssh/config has them.
_CLIENT = """\
Host beta
  SetEnv HEADRACE_TEST_HOST=beta
Host alpha beta
  HostName {address}
  HostKeyAlias headrace-test
  Port {port}
Host strangers
  HostName {address}
  HostKeyAlias nobody-knows-me
  Port {port}
Host impostor
  HostName {address}
  HostKeyAlias impostor
  Port {port}
Host locked
  HostName {address}
  HostKeyAlias headrace-test
  Port {port}
  IdentityFile {place}/other-key
Host closed
  HostName 127.0.0.1
  Port 9
Host !locked *
  IdentityFile {place}/key
Host *
  User {user}
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {place}/known
  GlobalKnownHostsFile none
  KexAlgorithms curve25519-sha256
"""


@dataclass(frozen=True)
class SshServer:
    """What a client needs: `alpha` and `beta` lead here, the other names to one failure each."""

    path: str
    """PATH on which `ssh` is the real client with this configuration."""
    pid: int
    log: Path
    enter_beta: Path
    """Script that runs the command of a session on `beta`."""


def children_of(server: SshServer) -> str:
    """Processes of the server's sessions; empty when none is left."""
    return Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().strip()


def node_processes(server: SshServer) -> list[int]:
    """Those that the server has started, without shells."""
    found: list[int] = []
    for process in psutil.Process(server.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            words = process.cmdline()
            if words and "python" in words[0] and any("headrace-node;" in word for word in words):
                found.append(process.pid)
    return found


@contextmanager
def ssh_server(
    place: Path,
    variables: Mapping[str, str],
    *,
    address: str = "127.0.0.1",
    there: Callable[[Sequence[str]], list[str]] = list,
    here: Callable[[Sequence[str]], list[str]] = list,
) -> Generator[SshServer]:
    """A server that lets this user in. `variables` are in the environment of its sessions.

    `there` and `here` return the command that runs a command where the server is, and where the
    client is.
    """
    place.mkdir()
    for name in ("host-key", "key", "other-key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)], check=True
        )
    (place / "authorized").write_bytes((place / "key.pub").read_bytes())
    host_key, other_key = (
        (place / f"{name}.pub").read_text() for name in ("host-key", "other-key")
    )
    (place / "known").write_text(f"headrace-test {host_key}impostor {other_key}")
    port = free_port()
    given = {
        "place": place,
        "port": port,
        "address": address,
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "variables": " ".join(
            f'"{name}={value}"' for name, value in {**variables, **_SHELL}.items()
        ),
    }
    (place / "sshd_config").write_text(_SERVER.format(**given))
    (place / "ssh_config").write_text(_CLIENT.format(**given))
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    client = shutil.which("ssh")
    assert sshd is not None and client is not None, "run scripts/setup: openssh-server is missing"
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # its service would make it
    programs = place / "bin"
    programs.mkdir()
    words = shlex.join(here([client, "-F", str(place / "ssh_config")]))
    (programs / "ssh").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    (programs / "ssh").chmod(0o755)
    for name in ("enter-", "enter-beta"):
        (place / name).write_text('#!/bin/sh\neval "$SSH_ORIGINAL_COMMAND"\n')
        (place / name).chmod(0o755)
    log = place / "sshd.log"
    log.touch()
    server = subprocess.Popen(
        there([sshd, "-D", "-f", str(place / "sshd_config"), "-E", str(log)]),
        stdin=subprocess.DEVNULL,
    )
    try:
        listens = f"Server listening on {address} port {port}"
        assert wait_until(lambda: listens in log.read_text(), PATIENCE_S, 0.05), log.read_text()
        yield SshServer(f"{programs}:{os.environ['PATH']}", server.pid, log, place / "enter-beta")
    finally:
        server.terminate()
        server.wait()
