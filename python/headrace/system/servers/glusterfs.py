"""Base layer: a real GlusterFS: a glusterd per server, a volume over their bricks, FUSE clients.

Every glusterd has its own configuration, working directory, run directory, socket and logs, and
listens on its node's address only, so that it never affects one of the machine. glusterd starts the
bricks (glusterfsd) and the self-heal daemon; these detach themselves and are found by the mark that
they inherit.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import stat
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from headrace.errors import HeadraceError
from headrace.system import processes
from headrace.system.cluster import Node
from headrace.system.identity import is_alive, start_ticks
from headrace.system.journal import Journal, JournalEntry
from headrace.system.mounts import read_mounts
from headrace.system.owned import socket_directory
from headrace.system.processes import Started, run_program, start_process
from headrace.system.servers import Server, ServerContext, ended
from headrace.system.waiting import retry, wait_until

GLUSTERD_PORT = 24007
_CLI_PATIENCE_S = 60.0
_MOUNT_PATIENCE_S = 30.0
_BRICKS_COME_S = 10.0
_HEAL_BEGINS_S = 30.0

_CONFIGURATION = """volume management
    type mgmt/glusterd
    option working-directory {work}
    option run-directory {run}
    option glusterd-sockfile {socket}
    option logging-directory {logs}
    option transport-type socket
    option transport.socket.bind-address {address}
    option transport.socket.listen-port {port}
    option transport.socket.read-fail-log off
    option transport.socket.keepalive-time 10
    option transport.socket.keepalive-interval 2
    option ping-timeout 0
    option event-threads 1
    option max-port 60999
end-volume
"""


class Glusterd(Server):
    """The management daemon of one server, and the bricks that it starts."""

    kind: ClassVar[str] = "glusterfs"
    programs: ClassVar[tuple[str, ...]] = ("glusterd", "gluster", "glusterfsd", "glusterfs")
    ports: ClassVar[tuple[int, ...]] = (GLUSTERD_PORT,)

    def __init__(self, name: str, node: Node) -> None:
        super().__init__(name, node)
        self.bricks: list[Path] = []
        """Directories that it serves for `volume`."""
        self.volume: Volume | None = None
        self._own_sockets: tuple[Path, JournalEntry] | None = None
        """Directory of the control socket."""
        self._sockets: JournalEntry | None = None
        self._known_sockets: set[str] = set()
        self._brick_processes: dict[int, int] = {}
        """Start time of each brick's process, in clock ticks since boot, by process id."""

    @override
    def configure(self, context: ServerContext) -> None:
        for folder in ("state", "run"):
            (context.work_dir / folder).mkdir(exist_ok=True)
        (context.log_dir / "bricks").mkdir(exist_ok=True)
        if self._own_sockets is None:
            self._own_sockets = socket_directory(context.journal)
        text = _CONFIGURATION.format(
            work=context.work_dir / "state",
            run=context.work_dir / "run",
            socket=self.socket,
            logs=context.log_dir,
            address=self.node.address,
            port=GLUSTERD_PORT,
        )
        (context.work_dir / "glusterd.vol").write_text(text)

    @property
    def socket(self) -> Path:
        """The control socket of `gluster`."""
        if self._own_sockets is None:
            raise RuntimeError("the server is not configured")
        return self._own_sockets[0] / "cli"

    @override
    def commands(self, context: ServerContext) -> Sequence[Sequence[str]]:
        return [
            [
                "glusterd",
                "-N",
                "-f",
                str(context.work_dir / "glusterd.vol"),
                "-l",
                str(context.log_dir / f"{self.name}-glusterd.log"),
                "-L",
                "WARNING",
                "-p",
                str(context.work_dir / "pid"),
            ]
        ]

    @override
    def is_ready(self) -> bool:
        if not self.socket.exists() or not self.node.accepts(self.node.address, GLUSTERD_PORT):
            return False
        with contextlib.suppress(HeadraceError):
            self.tell("pool", "list", timeout_s=5.0)
            return True
        return False

    def tell(self, *words: str, timeout_s: float = _CLI_PATIENCE_S) -> str:
        """Run a command of `gluster` on this glusterd. Raises HeadraceError with its message."""
        context = self._given()
        argv = [
            "gluster",
            f"--glusterd-sock={self.socket}",
            f"--log-file={context.log_dir / 'cli.log'}",
            "--mode=script",
            "--timeout=50",
            *words,
        ]
        # On the node, because the search for entries to heal connects to the bricks itself.
        return run_program(context.journal, self.node.command(argv), timeout_s=timeout_s)

    def ask(self, *words: str) -> ElementTree.Element:
        """Run a command as `tell`; return its answer as XML."""
        return ElementTree.fromstring(self.tell("--xml", *words))

    @override
    def start(self, context: ServerContext) -> None:
        # Bricks and the self-heal daemon leave sockets in /run/gluster, whatever their run
        # directory. This entry precedes theirs, so that it is undone after their death.
        self._sockets = context.journal.begin("remove_sockets", paths=[])
        super().start(context)

    def note_sockets(self) -> None:
        """Record the sockets of this glusterd's child processes in the undo journal."""
        if self._sockets is not None:
            self._known_sockets |= {path for pid in self.pids for path in _sockets_of(pid)}
            self._given().journal.add(self._sockets, paths=sorted(self._known_sockets))

    def note_bricks(self) -> None:
        """Note the processes of its bricks, all of which serve now, for `ended`."""
        bricks = [pid for pid in self.pids if "--brick-name" in _words(pid)]
        self._brick_processes = {pid: ticks for pid in bricks if (ticks := start_ticks(pid))}

    @override
    def ended(self) -> str:
        # A brick detaches itself from its glusterd, which does not start it again.
        bricks = self._brick_processes.items()
        lost = sum(not is_alive(pid, ticks) for pid, ticks in bricks)
        if (how := super().ended()) or not lost:
            return how
        return f"lost {lost} of its {len(bricks)} bricks" if len(bricks) > 1 else "lost its brick"

    @override
    def stop(self) -> None:
        self.note_sockets()
        self._brick_processes.clear()
        super().stop()
        if self._sockets is not None:
            result = self._given().journal.undo(self._sockets)
            if not result.done:
                raise HeadraceError(result.text, hint="headrace undo")
            self._sockets = None
        if self._own_sockets is not None:
            self._given().journal.undo(self._own_sockets[1])
            self._own_sockets = None

    @override
    def restart(self, timeout_s: float = 30.0) -> float:
        took_s = super().restart(timeout_s)
        if self.volume is not None and not self.volume.await_bricks(_BRICKS_COME_S):
            # A glusterd that restarts while its peer is busy can leave its bricks dead; an
            # administrator runs this command then.
            self.tell("volume", "start", self.volume.name, "force")
        self.note_bricks()
        return took_s

    @override
    def lose_storage(self) -> int:
        if self.volume is None or self.volume.layout.set_bricks < 2:
            return super().lose_storage()
        lost = 0
        for brick in self.bricks:
            lost += sum(files_of(brick).values())
            # The directory itself keeps its mark: a brick without its volume's mark is not served.
            for entry in brick.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
            (brick / ".glusterfs").mkdir(mode=0o700)
        return lost

    @override
    def refill(self) -> None:
        """Request a full heal: no change log lists what an emptied brick lacks."""
        if (volume := self.volume) is None:
            return
        # The self-heal daemon may not be ready yet.
        retry(
            lambda: self.tell("volume", "heal", volume.name, "full"),
            HeadraceError,
            _HEAL_BEGINS_S,
            0.5,
        )


def _words(pid: int) -> list[str]:
    """Return the command line of a process; empty when it no longer exists."""
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")
    except OSError:
        return []


def _sockets_of(pid: int) -> list[str]:
    words = _words(pid)
    return [path for word, path in itertools.pairwise(words) if word == "-S"]


@dataclass(frozen=True)
class Layout:
    """How files are distributed over bricks."""

    replicas: int = 1
    """Copies of each file; 1: each file is on one brick (distribute)."""
    redundancy: int = 0
    """Bricks of each `disperse` set that may be lost; 0: no erasure code."""
    disperse: int = 0
    """Bricks of an erasure-coded set; 0: no erasure code."""

    @property
    def set_bricks(self) -> int:
        """Number of bricks that hold one file, or its pieces."""
        return self.disperse or self.replicas

    def words(self) -> list[str]:
        """Return the arguments for `gluster volume create`."""
        if self.disperse:
            return ["disperse", str(self.disperse), "redundancy", str(self.redundancy)]
        return ["replica", str(self.replicas)] if self.replicas > 1 else []


_BRICK = re.compile(r"<POSIX\(([^)]*)\):([^:>]*):")


def bricks_of(file: str) -> list[tuple[str, str]]:
    """Return (host, directory) of each brick that holds a file of a mounted volume.

    Nothing where the file is on no GlusterFS, or this user may not see it. The host is that which
    the brick's own machine calls itself.
    """
    try:
        text = os.getxattr(file, "trusted.glusterfs.pathinfo").decode(errors="replace")
    except OSError:
        return []
    return [(host, brick) for brick, host in _BRICK.findall(text)]


class Volume:
    """One volume over bricks of several servers; it disappears with them."""

    def __init__(self, name: str, servers: Sequence[Glusterd], layout: Layout) -> None:
        self.name = name
        self.servers = list(servers)
        self.layout = layout
        self.bricks: list[Path] = []

    @property
    def first(self) -> Glusterd:
        """A living server, for commands. Raises HeadraceError when none lives."""
        for server in self.servers:
            if server.pids:
                return server
        raise HeadraceError(f"no server of the GlusterFS volume {self.name} is alive")

    def create(self, bricks: Sequence[tuple[Glusterd, Path]], options: Mapping[str, str]) -> None:
        """Join the servers to a pool, then create and start the volume.

        `bricks` are directories; consecutive ones form a set.
        """
        first = self.servers[0]
        for server in self.servers[1:]:
            first.tell("peer", "probe", server.node.address)
        self._wait_for_peers()
        self.bricks = [folder for _, folder in bricks]
        for server, folder in bricks:
            folder.mkdir(parents=True, exist_ok=True)
            server.bricks.append(folder)
            server.volume = self
        places = [f"{server.node.address}:{folder}" for server, folder in bricks]
        first.tell("volume", "create", self.name, *self.layout.words(), *places, "force")
        for option, value in options.items():
            self.set(option, value)
        first.tell("volume", "start", self.name)
        # A client mounted before a brick is ready ignores that brick for seconds: it would not see
        # what other clients write.
        if not self.await_bricks(_CLI_PATIENCE_S):
            words = " | ".join(server.last_words() for server in self.servers)
            raise HeadraceError(
                f"of {len(self.bricks)} bricks of {self.name} only {self.bricks_online()[0]} "
                f"serve: {words}"
            )
        for server in self.servers:
            server.note_sockets()
            server.note_bricks()

    def await_bricks(self, patience_s: float) -> bool:
        """Wait until every brick of a living server serves; return False on timeout."""
        alive = sum(len(server.bricks) for server in self.servers if server.pids)

        def all_serve() -> bool:
            with contextlib.suppress(HeadraceError):  # only one server may run a command at a time
                return self.bricks_online()[0] >= alive
            return False

        return wait_until(all_serve, patience_s, 0.1)

    def _wait_for_peers(self) -> None:
        wanted = len(self.servers) - 1

        def joined() -> int:
            peers = self.servers[0].ask("peer", "status").findall("./peerStatus/peer")
            return sum(
                peer.findtext("connected") == "1"
                and "Peer in Cluster" in (peer.findtext("stateStr") or "")
                for peer in peers
            )

        if not wait_until(lambda: joined() == wanted, _CLI_PATIENCE_S, 0.1):
            raise HeadraceError(
                f"of {wanted} peers only {joined()} joined the GlusterFS pool: "
                f"{self.servers[0].last_words()}"
            )

    def set(self, option: str, value: str) -> None:
        """Set an option of the volume. Raises HeadraceError with Gluster's message when unknown."""
        self.first.tell("volume", "set", self.name, option, value)

    def reset(self, option: str) -> None:
        """Reset an option to its default."""
        self.first.tell("volume", "reset", self.name, option)

    def get_all(self) -> dict[str, str]:
        """Return every option's current value, or its default."""
        answer = self.first.ask("volume", "get", self.name, "all")
        found: dict[str, str] = {}
        for element in answer.iter("Opt"):
            # Newer versions mark defaults: `on (DEFAULT)`.
            value = re.sub(r"\s*\(DEFAULT\)$", "", (element.findtext("Value") or "").strip())
            found.setdefault(element.findtext("Option") or "", value)
        return found

    def bricks_online(self) -> tuple[int, int]:
        """Return (bricks that serve, bricks)."""
        nodes = self.first.ask("volume", "status", self.name).findall(
            "./volStatus/volumes/volume/node"
        )
        bricks = [node for node in nodes if (node.findtext("path") or "").startswith("/")]
        return sum(node.findtext("status") == "1" for node in bricks), len(bricks)

    def to_heal(self) -> int:
        """Return the number of entries that a brick's own index lists as missing on another brick.

        (`gluster volume heal … info` only finds a glusterd at the system's default socket.)
        """
        return sum(
            not entry.name.startswith("xattrop-")
            for brick in self.bricks
            for entry in (brick / ".glusterfs" / "indices" / "xattrop").glob("*")
        )

    def lacking(self) -> str:
        """Return in words what copies or pieces lack now.

        Empty when all bricks serve and hold the same files.
        """
        serving, bricks = self.bricks_online()
        if serving < bricks:
            return f"{bricks - serving} of {bricks} bricks do not serve"
        if to_heal := self.to_heal():
            return f"{to_heal} entries are to be healed"
        each = self.layout.set_bricks
        for first in range(0, len(self.bricks), each):
            held = [files_of(brick) for brick in self.bricks[first : first + each]]
            union = {**{name: size for files in held for name, size in files.items()}}
            differ = sum(
                any(files.get(name) != size for files in held) for name, size in union.items()
            )
            if differ:
                return f"{differ} files are not alike on the bricks that hold them"
        return ""


def files_of(brick: Path) -> dict[str, int]:
    """Return the size of each file of a brick, without Gluster's internal files."""
    found: dict[str, int] = {}
    for folder, folders, names in os.walk(brick):
        if ".glusterfs" in folders:
            folders.remove(".glusterfs")
        for name in names:
            path = Path(folder) / name
            with contextlib.suppress(FileNotFoundError):
                # A link file of `distribute`, which points to another brick, has only the sticky
                # bit.
                if stat.S_IMODE(path.lstat().st_mode) != stat.S_ISVTX:
                    found[str(path.relative_to(brick))] = path.lstat().st_size
    return found


def errors_of(log: str) -> str:
    """Return the last three errors of a GlusterFS log.

    Times, source locations and layer names are left out.
    """
    said = [line for line in log.splitlines() if re.match(r"\[[^]]*\] E ", line)]
    plain = [re.sub(r"^\[[^]]*\] E (?:\[[^]]*\] )*\S+: ", "", line).strip() for line in said]
    return "; ".join(list(dict.fromkeys(plain))[-3:])


class GlusterfsClient:
    """The FUSE client of a node (None: of this machine), and its mount on an empty directory.

    `servers` are the addresses from which it requests the volume, in turn.
    """

    def __init__(
        self,
        journal: Journal,
        node: Node | None,
        servers: Sequence[str],
        volume: str,
        directory: Path,
        log: Path,
    ) -> None:
        self._journal = journal
        self.node = node
        self.directory = directory
        self._servers = list(servers)
        self._volume = volume
        self._log = log
        self._started: Started | None = None
        self._entry: JournalEntry | None = None

    def mount(self) -> None:
        """Mount it. Raises HeadraceError with the end of its log when that fails."""
        source = f"{self._servers[0]}:{self._volume}"
        # The mount's entry comes first: it is undone last, when the client is dead and cannot keep
        # the mount busy.
        self._entry = self._journal.begin(
            "unmount", directory=str(self.directory), source=source, lazy=True
        )
        argv = [
            "glusterfs",
            "--no-daemon",
            *(f"--volfile-server={address}" for address in self._servers),
            f"--volfile-id={self._volume}",
            f"--log-file={self._log}",
            "--log-level=WARNING",
            str(self.directory),
        ]
        try:
            if self.node is not None:
                self._started = self.node.start(self._journal, argv)
            else:
                self._started = start_process(self._journal, argv)
            self._wait()
        except BaseException:
            # The client may be about to mount: ended first, it cannot do so after the unmounting.
            if self._started is not None:
                self._started.stop()
            self.unmount()
            raise

    def _wait(self) -> None:
        def mounted() -> bool:
            if any(mount.directory == self.directory for mount in read_mounts()):
                with contextlib.suppress(OSError):
                    os.statvfs(self.directory)
                    return True
            return False

        wait_until(lambda: mounted() or bool(self.ended()), _MOUNT_PATIENCE_S, 0.05)
        if not mounted():
            text = self._log.read_text(errors="replace") if self._log.exists() else ""
            raise HeadraceError(
                f"the GlusterFS volume {self._volume} cannot be mounted: "
                f"{errors_of(text) or 'it says nothing'}",
                hint="are address and volume right, and may this machine mount it?",
            )

    @property
    def pids(self) -> list[int]:
        """Its processes; their CPU time is the client's."""
        return processes.marked(self._started.mark) if self._started is not None else []

    def ended(self) -> str:
        """Return how its process ended, in words; empty while it is mounted, or unmounted."""
        return ended(self._started)

    def unmount(self) -> None:
        """Unmount it and end its process. Safe to call twice.

        Raises HeadraceError when the mount stays.
        """
        entry, started = self._entry, self._started
        self._entry = self._started = None
        if entry is None:
            return
        result = self._journal.undo(entry)
        if started is not None:
            started.stop()
        if not result.done:
            result = self._journal.undo(entry)
        if not result.done:
            raise HeadraceError(result.text, hint="headrace undo")

    def forget(self) -> None:
        """Empty its caches by mounting it again."""
        self.unmount()
        self.mount()
