"""A real SSH server on loopback with keys of its own, and the client's configuration for it."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.system.waiting import wait_until
from ports import free_port

PATIENCE_S = 30

_SERVER = """\
Port {port}
ListenAddress 127.0.0.1
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
# `alpha` and `beta` are two names of this machine, as a user's ~/.ssh/config has them.
_CLIENT = """\
Host beta
  SetEnv HEADRACE_TEST_HOST=beta
Host alpha beta
  HostName 127.0.0.1
  HostKeyAlias headrace-test
  Port {port}
Host strangers
  HostName 127.0.0.1
  HostKeyAlias nobody-knows-me
  Port {port}
Host impostor
  HostName 127.0.0.1
  HostKeyAlias impostor
  Port {port}
Host locked
  HostName 127.0.0.1
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


@contextmanager
def ssh_server(place: Path, variables: Mapping[str, str]) -> Generator[SshServer]:
    """A server that lets this user in. `variables` are in the environment of its sessions."""
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
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "variables": " ".join(f'"{name}={value}"' for name, value in variables.items()),
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
    (programs / "ssh").write_text(f'#!/bin/sh\nexec {client} -F "{place}/ssh_config" "$@"\n')
    (programs / "ssh").chmod(0o755)
    for name in ("enter-", "enter-beta"):
        (place / name).write_text('#!/bin/sh\neval "$SSH_ORIGINAL_COMMAND"\n')
        (place / name).chmod(0o755)
    log = place / "sshd.log"
    server = subprocess.Popen(
        [sshd, "-D", "-f", str(place / "sshd_config"), "-E", str(log)], stdin=subprocess.DEVNULL
    )
    try:
        assert wait_until(lambda: _listens(port), PATIENCE_S, 0.05), log.read_text()
        yield SshServer(f"{programs}:{os.environ['PATH']}", server.pid, log, place / "enter-beta")
    finally:
        server.terminate()
        server.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
