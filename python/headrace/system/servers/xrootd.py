"""Ground: XRootD servers: a data server, a redirector with its cluster manager, and XCache in front of them; each with one configuration.

They refuse to run as root, so they run as the package's user (or nobody), with the one capability that lets them read and write the
folders of a study, which belong to root.
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
from headrace.system.journal import Entry
from headrace.system.owned import work_directory
from headrace.system.servers import Server, ServerContext

PORT, CLUSTER_PORT = 1094, 1213
TREE = "/store"
"""What a server shows of its storage: the folder of this name in it."""
CLIENT_ENVIRONMENT: Mapping[str, str] = {
    # Without these a client asks a dead server for many minutes (defaults: window 120 s, 5 retries, request 1800 s).
    "XRD_CONNECTIONWINDOW": "3",
    "XRD_CONNECTIONRETRY": "2",
    "XRD_REQUESTTIMEOUT": "60",
    "XRD_STREAMERRORWINDOW": "10",
    "XRD_LOGLEVEL": "Error",
}
"""How long clients of a study's servers ask one that does not answer."""

# A fixed script, its arguments given apart. A server tells others its host's name, which here would be the machine's on every node.
_NAMED = 'hostname "$1" && shift && exec "$@"'
_CAPABILITIES = "-all,+dac_override,+dac_read_search,+fowner,+chown"


@dataclass(frozen=True)
class CacheSettings:
    """XCache."""

    origin: str
    """`host:port` that it fetches from."""
    ram_bytes: int = 1 << 30
    """At least 1 GiB, says libXrdPfc."""
    block_bytes: int = 512 << 10
    prefetch: int = 0
    """Blocks that are fetched ahead."""


@dataclass(frozen=True)
class XrootdSettings:
    """What a server is told."""

    role: Literal["alone", "redirector", "data", "cache"] = "alone"
    redirector: str | None = None
    """Address of the redirector, for `redirector` and `data`."""
    threads: int | None = None
    cache: CacheSettings | None = None


def user() -> str:
    """The user that servers run as."""
    for name in ("xrootd", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise HeadraceError("this machine has neither a user xrootd nor nobody for XRootD servers to run as")


class Xrootd(Server):
    """One XRootD server of any role."""

    kind: ClassVar[str] = "xrootd"
    programs: ClassVar[tuple[str, ...]] = ("xrootd", "cmsd", "xrdfs", "setpriv", "unshare", "hostname")
    ports: ClassVar[tuple[int, ...]] = (PORT,)

    def __init__(self, name: str, node: Node, settings: XrootdSettings) -> None:
        super().__init__(name, node)
        self.settings = settings
        self._starts = 0
        self._log_begins = 0
        self._state: tuple[Path, Entry] | None = None

    @property
    def in_cluster(self) -> bool:
        """True when a cluster manager daemon runs beside it."""
        return self.settings.role in ("redirector", "data")

    @override
    def configure(self, context: ServerContext) -> None:
        settings = self.settings
        log = self._manager_log()
        self._log_begins = log.stat().st_size if log.exists() else 0
        # A new one at every start: what is there already it asks for by access(2), which knows no capabilities.
        self._starts += 1
        if self._state is None:
            # Apart and short: paths of sockets may have 107 characters, and it adds many of its own.
            self._state = work_directory(context.journal)
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
                # The defaults wait 90 s for servers to come; these are there, and few.
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
    def is_ready(self) -> bool:
        """It listens before it can serve, so it is asked for the protocol's handshake (XRootD protocol 5, section 2.1)."""

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
        """A redirector whom no data server has come to yet sends clients away, and remembers what it did not find."""
        word = {"redirector": b"Status changed to active", "data": b"Logged into"}.get(self.settings.role)
        if word is None:
            return True
        try:
            with self._manager_log().open("rb") as log:
                log.seek(self._log_begins)
                return word in log.read()
        except OSError:
            return False


def plain(said: str) -> str:
    """What XRootD's client complains of, in its own words: the first cause in its log, or else how it ended."""
    cause = re.search(r"(Unable to (?:resolve|connect)[^\[]*)", said) or re.search(r"(\[\d+\] [^\[]*)$", said)
    return (cause.group(1) if cause else said.rpartition("] ")[2]).strip(" .")


def where(storage: Path, path: str) -> Path:
    """Where a path of a server's tree lies in its storage."""
    return storage / path.lstrip("/")
