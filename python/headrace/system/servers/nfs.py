"""Base layer: the user-space NFS server nfs-ganesha, and mounting its exports.

The client is the kernel's or `nfs_fuse.py`. Version 4 needs nothing else; version 3 registers with
rpcbind, which gets a private /run so that it is never the machine's own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from typing_extensions import override

from headrace.errors import HeadraceError, MissingError, Problem
from headrace.system.cluster import Node
from headrace.system.own_programs import own_module
from headrace.system.processes import run_program, start_process
from headrace.system.requirements import find_program, remedy
from headrace.system.servers import Server, ServerContext, ended
from headrace.system.servers.nfs_fuse_settings import ClientSettings
from headrace.system.waiting import wait_until

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry
    from headrace.system.processes import Started

NfsClient = Literal["kernel", "fuse"]

NFS_PORT, MOUNT_PORT = 2049, 20048
EXPORTED_AS = "/export"
"""The export's name for clients of version 4."""
_MOUNT_PATIENCE_S = 20.0
# A fixed script, its arguments passed separately. rpcbind gets its own /run in a separate mount
# namespace. The namespace unmounts every device and FUSE file system that does not hold the export
# ($1): otherwise these could not be unmounted while the server lives.
_WITH_RPCBIND = """
while read -r device directory type rest; do
    case "$1/" in "${directory%/}/"*) continue;; esac
    case "$device $type" in /dev/*|*" fuse"*) umount -l "$directory";; esac
done < /proc/self/mounts
mount -t tmpfs tmpfs /run && rpcbind && shift && exec "$@"
"""
_PLUGINS = (
    "/usr/lib/x86_64-linux-gnu/ganesha",
    "/usr/lib/aarch64-linux-gnu/ganesha",
    "/usr/lib64/ganesha",
)


@dataclass(frozen=True)
class GaneshaSettings:
    """Options of the server."""

    versions: tuple[int, ...] = (4,)
    threads: int | None = None
    """Requests served concurrently; the server's default (200) when None."""
    read_only: bool = False


class Ganesha(Server):
    """One nfs-ganesha with one export."""

    kind: ClassVar[str] = "nfs"
    programs: ClassVar[tuple[str, ...]] = ("ganesha.nfsd", "rpcbind", "unshare")
    ports: ClassVar[tuple[int, ...]] = (NFS_PORT,)

    def __init__(self, name: str, node: Node, settings: GaneshaSettings) -> None:
        super().__init__(name, node)
        self.settings = settings

    @classmethod
    @override
    def check(cls, needed_by: str) -> list[Problem]:
        problems = super().check(needed_by)
        if not problems and not any(Path(folder, "libfsalvfs.so").exists() for folder in _PLUGINS):
            problems.append(
                Problem(
                    "nfs-ganesha has no VFS plugin", needed_by, "apt-get install nfs-ganesha-vfs"
                )
            )
        return problems

    @override
    def configure(self, context: ServerContext) -> None:
        settings = self.settings
        protocols = ", ".join(str(version) for version in settings.versions)
        recovery = context.work_dir / "recovery"
        recovery.mkdir(exist_ok=True)
        threads = (
            ""
            if settings.threads is None
            else f"RPC_Ioq_ThrdMin = 2; RPC_Ioq_ThrdMax = {max(2, settings.threads)};"
        )
        access = "RO" if settings.read_only else "RW"
        text = f"""\
NFS_CORE_PARAM {{
    Protocols = {protocols}; NFS_Port = {NFS_PORT}; MNT_Port = {MOUNT_PORT};
    Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; {threads}
}}
NFSv4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = "{recovery}"; }}
EXPORT {{
    Export_Id = 1; Path = "{context.storage}"; Pseudo = "{EXPORTED_AS}"; Protocols = {protocols}; \
Transports = TCP;
    SecType = sys; Squash = No_Root_Squash; Access_Type = {access};
    FSAL {{ Name = VFS; }}
}}
LOG {{ Default_Log_Level = WARN; Components {{ PNFS = CRIT; }} }}
"""
        (context.work_dir / "ganesha.conf").write_text(text)

    @override
    def commands(self, context: ServerContext) -> Sequence[Sequence[str]]:
        log = context.log_dir / f"{self.name}-ganesha.log"
        server = [
            "ganesha.nfsd",
            "-F",
            *("-f", str(context.work_dir / "ganesha.conf")),
            *("-L", str(log)),
            *("-p", str(context.work_dir / "ganesha.pid")),
        ]
        if 3 in self.settings.versions:
            server = [
                "unshare",
                "--mount",
                *(
                    "--propagation",
                    "slave",
                ),  # unmounts outside propagate to the namespace, where mounts are shared
                "--",
                "sh",
                "-c",
                _WITH_RPCBIND,
                "sh",
                str(context.storage),
                *server,
            ]
        return [server]

    @override
    def is_ready(self) -> bool:
        return self.node.accepts(self.node.address, NFS_PORT)


def why_no_kernel_client() -> tuple[str, str] | None:
    """Return why the kernel's NFS client is unavailable, and the remedy; else None."""
    if not any(
        line.split()[-1] in ("nfs", "nfs4")
        for line in Path("/proc/filesystems").read_text().splitlines()
    ):
        return "this kernel has no NFS client", "modprobe nfs, or the client in user space"
    if find_program("mount.nfs") is None:
        return "the program mount.nfs is not installed", remedy("mount.nfs")
    return None


def why_no_fuse_client() -> tuple[str, str] | None:
    """Return the same for the user-space client."""
    if not Path("/dev/fuse").exists():
        return "this kernel has no FUSE", "modprobe fuse"
    for library in ("mfusepy", "nfs_rs"):
        try:
            __import__(library)
        except (ImportError, OSError) as error:
            package = "fuse3" if library == "mfusepy" else "nfs-rs"
            return f"{library} cannot be used: {error}", f"install {package}"
    return None


def choose_client(wanted: Literal["auto", "kernel", "fuse"]) -> NfsClient:
    """Return the client to use: the kernel's where it exists.

    Raises MissingError when the requested client is unavailable.
    """
    kernel = why_no_kernel_client() if wanted != "fuse" else None
    if wanted != "fuse" and kernel is None:
        return "kernel"
    if wanted == "kernel" and kernel is not None:
        raise MissingError(f"NFS: {kernel[0]}", hint=kernel[1])
    if reason := why_no_fuse_client():
        raise MissingError(f"NFS: {reason[0]}", hint=reason[1])
    return "fuse"


@dataclass(frozen=True)
class NfsMount:
    """A mounted export."""

    journal: Journal
    entry: JournalEntry
    client: Started | None
    """The client in user space; None for the kernel's."""

    def ended(self) -> str:
        """Return how the client in user space ended, in words; empty while it runs."""
        return ended(self.client)

    def unmount(self) -> None:
        """Unmount it and end its client. Raises HeadraceError when the mount stays."""
        result = self.journal.undo(self.entry)
        if self.client is not None:
            self.client.stop()
        if not result.done:
            raise HeadraceError(result.text)


def mount_nfs(
    journal: Journal,
    node: Node | None,
    settings: ClientSettings,
    client: NfsClient,
    log: Path,
    options: Sequence[str] = (),
    read_ahead_bytes: int | None = None,
) -> NfsMount:
    """Mount an export on a node (None: on this machine).

    Raises HeadraceError with the message of the server or client.
    """
    directory = Path(settings.directory)
    source = f"{settings.server}:{settings.export}"
    entry = journal.begin("unmount", directory=str(directory), source=source, lazy=True)
    process: Started | None = None
    try:
        if client == "kernel":
            _mount_by_kernel(journal, node, settings, source, options)
        else:
            process = _mount_by_fuse(journal, node, settings, log)
        if read_ahead_bytes is not None:
            _read_ahead(directory, read_ahead_bytes)
    except BaseException:
        journal.undo(entry)
        if process is not None:
            process.stop()
        raise

    return NfsMount(journal, entry, process)


def _mount_by_kernel(
    journal: Journal,
    node: Node | None,
    settings: ClientSettings,
    source: str,
    options: Sequence[str],
) -> None:
    given = [
        f"vers={'4.1' if settings.version == 4 else '3'}",
        f"rsize={settings.rsize_bytes}",
        f"wsize={settings.wsize_bytes}",
        "hard"
        if settings.patience_s is None
        else f"soft,timeo={max(1, round(settings.patience_s * 10 / 3))}",
        "nolock",
    ]
    if settings.nfs_port is not None:
        given.append(f"port={settings.nfs_port}")
    if settings.version == 3 and settings.mount_port is not None:
        given += [f"mountport={settings.mount_port}", "mountproto=tcp", "proto=tcp"]
    argv = ["mount", "-t", "nfs", "-o", ",".join([*given, *options]), source, settings.directory]
    run_program(
        journal, node.command(argv) if node is not None else argv, timeout_s=_MOUNT_PATIENCE_S
    )


def _mount_by_fuse(
    journal: Journal, node: Node | None, settings: ClientSettings, log: Path
) -> Started:
    argv = own_module("headrace.system.servers.nfs_fuse", settings.as_json())
    with log.open("ab") as output:
        process = (
            node.start(journal, argv, output=output)
            if node is not None
            else start_process(journal, argv, output=output)
        )
    wait_until(
        lambda: os.path.ismount(settings.directory) or process.process.poll() is not None,
        _MOUNT_PATIENCE_S,
        0.02,
    )
    if not os.path.ismount(settings.directory):
        process.stop()
        said = log.read_text(errors="replace").strip().splitlines() or ["no answer"]
        raise HeadraceError(
            f"NFS: {said[-1]}", hint="is the address right, and is it exported to this machine?"
        )
    return process


def _read_ahead(directory: Path, size: int) -> None:
    """Set the read-ahead of a mount, which lasts as long as the mount.

    It is an attribute of the mount's backing device info
    (Documentation/ABI/testing/sysfs-class-bdi).
    """
    device = directory.stat().st_dev
    file = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    file.write_text(str(size // 1024))
    if int(file.read_text()) != size // 1024:
        raise HeadraceError(f"the kernel takes no read-ahead of {size} bytes for {directory}")
