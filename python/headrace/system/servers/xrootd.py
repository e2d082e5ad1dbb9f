"""Base layer: XRootD servers: data server, redirector with cluster manager, and XCache proxy.

They refuse to run as root. They run as the package's user (or nobody), with the capabilities to
read and write the directories of a study, which belong to root.
"""

from __future__ import annotations

import pwd
import re
import shutil
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from typing_extensions import override

from headrace.errors import HeadraceError
from headrace.system.cluster import Node, call_inside
from headrace.system.journal import JournalEntry
from headrace.system.owned import socket_directory
from headrace.system.servers import Server, ServerContext

PORT, CLUSTER_PORT = 1094, 1213
TREE = "/store"
"""A server exports the directory of this name in its storage."""
CLIENT_ENVIRONMENT: Mapping[str, str] = {
    # With the defaults a client retries a dead server for many minutes (window 120 s, 5 retries,
    # request 1800 s).
    "XRD_CONNECTIONWINDOW": "3",
    "XRD_CONNECTIONRETRY": "2",
    "XRD_REQUESTTIMEOUT": "60",
    "XRD_STREAMERRORWINDOW": "10",
    "XRD_LOGLEVEL": "Error",
}
"""How long clients of a study's servers retry a server that does not answer."""

# A fixed script, its arguments passed separately. A server announces its host name, which would be
# the machine's on every node.
_NAMED = 'hostname "$1" && shift && exec "$@"'
_CAPABILITIES = "-all,+dac_override,+dac_read_search,+fowner,+chown"


@dataclass(frozen=True)
class CacheSettings:
    """Options of XCache."""

    origin: str
    """`host:port` of the server it fetches from."""
    ram_bytes: int = 1 << 30
    """At least 1 GiB, as libXrdPfc requires."""
    block_bytes: int = 512 << 10
    prefetch: int = 0
    """Number of prefetched blocks."""


@dataclass(frozen=True)
class XrootdSettings:
    """Options of one server."""

    role: Literal["alone", "redirector", "data", "cache"] = "alone"
    redirector: str | None = None
    """Address of the redirector, for `redirector` and `data`."""
    threads: int | None = None
    cache: CacheSettings | None = None


def user() -> str:
    """Return the user that servers run as."""
    for name in ("xrootd", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise HeadraceError(
        "this machine has neither a user xrootd nor nobody for XRootD servers to run as"
    )


class XrootdServer(Server):
    """One XRootD server of any role."""

    kind: ClassVar[str] = "xrootd"
    programs: ClassVar[tuple[str, ...]] = (
        "xrootd",
        "cmsd",
        "xrdfs",
        "setpriv",
        "unshare",
        "hostname",
    )
    ports: ClassVar[tuple[int, ...]] = (PORT,)

    def __init__(self, name: str, node: Node, settings: XrootdSettings) -> None:
        super().__init__(name, node)
        self.settings = settings
        self._starts = 0
        self._log_begins = 0
        self._state: tuple[Path, JournalEntry] | None = None

    @property
    def in_cluster(self) -> bool:
        """True when a cluster manager daemon runs with it."""
        return self.settings.role in ("redirector", "data")

    @override
    def configure(self, context: ServerContext) -> None:
        settings = self.settings
        log = self._manager_log()
        self._log_begins = log.stat().st_size if log.exists() else 0
        # A new directory at each start: the server checks existing ones with access(2), which
        # ignores capabilities.
        self._starts += 1
        if self._state is None:
            # Separate and short: socket paths are limited to 107 characters, and the server adds
            # many.
            self._state = socket_directory(context.journal)
        state = self._state[0] / str(self._starts)
        for folder in (
            context.work_dir,
            state,
            context.log_dir,
            context.storage,
            context.storage / TREE[1:],
        ):
            folder.mkdir(parents=True, exist_ok=True)
            shutil.chown(folder, user())
        lines = [
            f"all.export {TREE}" + (" nolock r/w" if settings.role != "cache" else ""),
            f"oss.localroot {context.storage}",
            f"all.adminpath {state}",
            f"all.pidpath {state}",
            "xrd.network nodnr",
            f"xrd.port {PORT} if exec xrootd",
            "xrootd.trace off",
        ]
        if settings.threads is not None:
            lines.append(f"xrd.sched mint 1 maxt {max(2, settings.threads)}")
        if self.in_cluster:
            role = "manager" if settings.role == "redirector" else "server"
            lines += [
                f"all.role {role}",
                f"all.manager {settings.redirector}:{CLUSTER_PORT}",
                f"xrd.port {CLUSTER_PORT if role == 'manager' else 'any'} if exec cmsd",
                # The defaults wait 90 s for servers to join; here they are few and already running.
                "cms.delay startup 1 servers 1 lookup 1 drop 5 suspend 1 service 1",
                # By default a server with less than 10 GB free gets no new files.
                "cms.space min 1m 2m",
            ]
        if settings.cache is not None:
            cache = settings.cache
            lines += [
                "ofs.osslib libXrdPss.so",
                "pss.cachelib libXrdPfc.so",
                f"pss.origin {cache.origin}",
                f"pfc.ram {max(1, cache.ram_bytes >> 30)}g",
                f"pfc.blocksize {cache.block_bytes >> 10}k",
                f"pfc.prefetch {cache.prefetch}",
            ]
        (context.work_dir / "xrootd.cfg").write_text("\n".join(lines) + "\n")

    @override
    def stop(self) -> None:
        super().stop()
        if self._state is not None:
            self._given().journal.undo(self._state[1])
            self._state = None

    @override
    def commands(self, context: ServerContext) -> Sequence[Sequence[str]]:
        found = pwd.getpwnam(user())
        lower = [
            *("unshare", "--uts", "--", "sh", "-c", _NAMED, "sh", self.node.address),
            "setpriv",
            f"--reuid={found.pw_uid}",
            f"--regid={found.pw_gid}",
            "--clear-groups",
            f"--inh-caps={_CAPABILITIES}",
            f"--ambient-caps={_CAPABILITIES}",
            "--",
        ]
        programs = ["cmsd", "xrootd"] if self.in_cluster else ["xrootd"]
        return [
            [
                *lower,
                program,
                *("-c", str(context.work_dir / "xrootd.cfg")),
                *("-l", str(context.log_dir / f"{self.name}-{program}.log")),
                *("-n", self.name),
                *("-I", "v4"),
            ]
            for program in programs
        ]

    @override
    def may_continue(self) -> bool:
        """Return whether the cluster manager daemon listens.

        A server that does not find it retries only after ten seconds, and of two that start at once
        one can end without a word.
        """
        return self._manager_says(
            b"Waiting for primary server to login"
            if self.settings.role == "data"
            else b"------ cmsd "
        )

    @override
    def is_ready(self) -> bool:
        """Return whether it answers the protocol's handshake (XRootD protocol 5, section 2.1).

        It listens before it serves.
        """

        def shake_hands() -> bool:
            try:
                with socket.create_connection((self.node.address, PORT), timeout=1.0) as made:
                    made.sendall(struct.pack(">5i", 0, 0, 0, 4, 2012))
                    return len(made.recv(16)) > 0
            except OSError:
                return False

        return self._is_joined() and call_inside(self.node.namespace, shake_hands)

    def _manager_log(self) -> Path:
        return self._given().log_dir / self.name / f"{self.name}-cmsd.log"

    def _is_joined(self) -> bool:
        """Return whether it has joined its cluster.

        A redirector without a data server rejects clients, and caches what it did not find.
        """
        word = {"redirector": b"Status changed to active", "data": b"Logged into"}.get(
            self.settings.role
        )
        return word is None or self._manager_says(word)

    def _manager_says(self, word: bytes) -> bool:
        """Return whether the log of its cluster manager daemon has a word of this start."""
        try:
            with self._manager_log().open("rb") as log:
                log.seek(self._log_begins)
                return word in log.read()
        except OSError:
            return False


def plain(said: str) -> str:
    """Return the first cause in the output of XRootD's client, else how the client ended."""
    cause = re.search(r"(Unable to (?:resolve|connect)[^\[]*)", said) or re.search(
        r"(\[\d+\] [^\[]*)$", said
    )
    return (cause.group(1) if cause else said.rpartition("] ")[2]).strip(" .")


def where(storage: Path, path: str) -> Path:
    """Return the place of an exported path in the server's storage."""
    return storage / path.lstrip("/")
