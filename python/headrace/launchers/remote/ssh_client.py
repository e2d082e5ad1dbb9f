"""The system's OpenSSH client: hosts as users name them, its command line, and what it reports.

Configuration, keys, agent and known hosts are the user's own (`~/.ssh`). Nothing here weakens a
check: an unknown host key ends the connection.
"""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError

MARK = b"headrace-node;"
"""What the command on a node writes first. What the shell there prints before it is skipped."""
_HOST = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]*)@)?"
    r"(?:(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)|\[(?P<address>[0-9A-Fa-f:.]+(?:%\w+)?)\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
_ALIVE_S = 15
"""ssh asks the server for a sign of life when it was silent for this time."""
_OPTIONS = {
    "BatchMode": "yes",  # fail instead of a question
    "ConnectTimeout": "15",
    "ServerAliveInterval": str(_ALIVE_S),
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ControlMaster": "no",  # an existing connection is used, none is left behind
    "RemoteCommand": "none",
}


@dataclass(frozen=True)
class SshHost:
    """A host: a name of DNS or of `~/.ssh/config`, or an address, with user and port if given."""

    text: str
    """As written in the study."""
    name: str
    user: str | None = None
    port: int | None = None


def parse_hosts(text: str) -> tuple[SshHost, ...]:
    """Return the hosts of a list separated by commas. Raises ValueError that says what is wrong."""
    return tuple(_parse_host(word.strip()) for word in text.split(","))


def _parse_host(word: str) -> SshHost:
    found = _HOST.fullmatch(word)
    if found is None:
        raise ValueError(
            f'"{word}" is not a host; allowed: HOST, USER@HOST, HOST:PORT, [IPV6]:PORT'
        )
    port = None if found["port"] is None else int(found["port"])
    if port is not None and not 1 <= port <= 65535:
        raise ValueError(f'"{word}": ports are 1 to 65535')
    return SshHost(word, found["name"] or found["address"], found["user"], port)


def command(ssh: str, host: SshHost, python: str, code: str, silence_s: float) -> list[str]:
    """Return the command that runs Python code on a host; `python` is the path there.

    ssh gives up a server that is silent for longer than `silence_s`: not before Headrace does.
    """
    argv = [ssh, "-T", "-o", f"ServerAliveCountMax={math.ceil(silence_s / _ALIVE_S) + 1}"]
    for name, value in _OPTIONS.items():
        argv += ["-o", f"{name}={value}"]
    if host.user is not None:
        argv += ["-l", host.user]
    if host.port is not None:
        argv += ["-p", str(host.port)]
    # sshd hands one line to the user's shell: only the path of Python varies, and it is quoted.
    return [*argv, "--", host.name, f"exec {shlex.quote(python)} -c {shlex.quote(code)}"]


# What ssh, sshd's shell and Python write when no node process starts: pattern, message, remedy.
_FAILURES: tuple[tuple[str, str, str], ...] = (
    (
        r"could not resolve hostname",
        "the host is unknown",
        "correct the name in [run] on, or add it to ~/.ssh/config",
    ),
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|host key for .* has changed",
        "its host key has changed: another machine may answer in its place",
        "ask its administrator; only then remove the old key: ssh-keygen -R {name}",
    ),
    (
        r"Host key verification failed",
        "its host key is not known here",
        "connect once by hand and compare the fingerprint: {by_hand}",
    ),
    (
        r"Permission denied \(|Too many authentication failures|No supported authentication",
        "it does not accept a key of this user",
        "add your key there (ssh-copy-id), or load it (ssh-add); to try: {by_hand}",
    ),
    (
        r"Connection refused",
        "connection refused: no SSH server listens there",
        "start sshd on it, or correct the port",
    ),
    (
        r"timed out|No route to host|Network is unreachable",
        "it cannot be reached",
        "check the network and its firewall; to try: {by_hand}",
    ),
    (
        r"No module named '?headrace'?$|No package metadata was found for headrace",
        "{python} there has no Headrace",
        "install Headrace {version} there, or name another Python: [run] python",
    ),
    (
        r"No module named '?headrace\.|cannot import name .* from 'headrace",
        "it has another version of Headrace",
        "install Headrace {version} there",
    ),
    (
        r"\A(?![\s\S]*Traceback)[\s\S]*(?:Permission denied|cannot execute)",
        "{python} cannot be run there",
        "correct its permissions, or name another Python: [run] python",
    ),
    (
        r"\A(?![\s\S]*Traceback)[\s\S]*(?:not found|No such file or directory)",
        "there is no {python}",
        "install Headrace there at the same path, or name its Python: [run] python",
    ),
)


def failure(node: str, host: SshHost, python: str, said: str, version: str) -> HeadraceError:
    """Return the error of a host on which no node process has started.

    `said`: what ssh and the host wrote on standard error.
    """
    by_hand = "ssh " + " ".join(
        [f"-p {host.port}"] * (host.port is not None)
        + [f"{host.user}@{host.name}" if host.user else host.name]
    )
    given = {"name": host.name, "python": python, "version": version, "by_hand": by_hand}
    for pattern, what, remedy in _FAILURES:
        if re.search(pattern, said, re.IGNORECASE | re.MULTILINE):
            message = what.format(**given)
            return HeadraceError(f"{node} ({host.text}): {message}", hint=remedy.format(**given))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1][:300] if lines else "the connection ended without a word"
    return HeadraceError(f"{node} ({host.text}) does not start: {last}", hint=f"try {by_hand}")


def said_in(log: Path) -> str:
    """Return the end of what a command wrote to its log."""
    return log.read_bytes()[-8192:].decode(errors="replace")
