"""Base layer: network file systems: kind, server, client settings and striping."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from headrace.system.mounts import Mount
from headrace.system.requirements import find_program

_KINDS = {
    "nfs": "nfs",
    "nfs4": "nfs",
    "lustre": "lustre",
    "gpfs": "gpfs",
    "mmfs": "gpfs",
    "beegfs": "beegfs",
    "fhgfs": "beegfs",
    "ceph": "ceph",
    "fuse.ceph": "ceph",
    "fuse.ceph-fuse": "ceph",
    "glusterfs": "glusterfs",
    "fuse.glusterfs": "glusterfs",
    "pvfs2": "orangefs",
    "orangefs": "orangefs",
    "fuse.mfs": "moosefs",
    "fuse.moosefs": "moosefs",
    "fuse.lizardfs": "lizardfs",
    "fuse.saunafs": "saunafs",
    "cifs": "cifs",
    "smb3": "cifs",
    "smbfs": "cifs",
    "afs": "afs",
    "9p": "9p",
    "virtiofs": "virtiofs",
    "panfs": "panfs",
    "wekafs": "wekafs",
    "fuse.sshfs": "sshfs",
    "fuse.s3fs": "s3fs",
    "fuse.juicefs": "juicefs",
    "fuse.cvmfs2": "cvmfs",
    "fuse.xrootdfs": "xrootdfs",
    "fuse.nfs": "nfs",
    "fuse.fuse-nfs": "nfs",
}
"""File system types in mountinfo, and their names in Headrace."""

_LOCAL_FUSE = frozenset(
    [
        "archivemount", "bindfs", "cryfs", "dwarfs", "encfs", "erofsfuse", "exfat", "exfat-fuse",
        "ext2", "fuse-archive", "fuse-ext2", "fuse-overlayfs", "fuse-zip", "fuse2fs", "fuseiso",
        "gocryptfs", "lxcfs", "mergerfs", "mhddfs", "ntfs", "ntfs-3g", "portal", "ratarmount",
        "securefs", "squashfuse", "squashfuse_ll", "unionfs", "unionfs-fuse", "zfs",
    ]
)  # fmt: skip
"""Subtypes of FUSE whose program reads local files or devices: all others ask a server.

There are too many clients of servers for a list of them (rclone, WebDAV, S3, EOS …).
"""

_HIDDEN = ("secret", "password", "pass", "credentials", "cred", "token", "key")
"""Options whose values are never recorded."""


@dataclass(frozen=True)
class NetworkFilesystem:
    """A file system that is reached over a network."""

    kind: str
    server: str
    """Host or hosts, or a name for them in the mount's source; empty when not shown."""
    export: str
    """The mounted part of the server."""
    client: dict[str, str] = field(default_factory=dict[str, str])
    """Mount options of the client with a value, and read-ahead settings of its kernel module."""
    layout: dict[str, object] = field(default_factory=dict[str, object])
    """Striping of the directory, from the file system's own tool; empty when that is not installed.
    """
    whole: str = ""
    """The tool's output on the whole file system (targets, block size); empty when not installed.
    """

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-compatible mapping for the record."""
        return {key: value for key, value in vars(self).items() if value}


def _server_and_export(kind: str, source: str, options: dict[str, str]) -> tuple[str, str]:
    if kind == "cifs":
        host, _, share = source.lstrip("/\\").replace("\\", "/").partition("/")
        return host, share
    if kind == "lustre":  # mgs1@tcp:mgs2@tcp:/fsname
        hosts, _, name = source.rpartition(":/")
        return hosts, name
    if kind == "orangefs":  # tcp://host:3334/name
        match = re.match(r"^\w+://([^/]+)/(.*)$", source)
        return (match.group(1), match.group(2)) if match else ("", source)
    if kind == "beegfs":
        settings = Path(options["cfgFile"]) if "cfgFile" in options else None
        with contextlib.suppress(OSError):
            for line in settings.read_text().splitlines() if settings else []:
                key, _, value = line.partition("=")
                if key.strip() == "sysMgmtdHost":
                    return value.strip(), source
        return "", source
    if kind in ("moosefs", "lizardfs", "saunafs"):  # mfs#host:9421 or host:9421
        return source.rpartition("#")[2], ""
    if kind == "gpfs":
        return "", source
    if kind in ("9p", "virtiofs"):
        return "host of this virtual machine", source
    if address := re.match(r"^(?:\w+#)?\w+://(?:[^/@]*@)?([^/]+)(.*)$", source):
        return address[1], address[2] or "/"
    host, separator, path = source.rpartition(
        ":/"
    )  # host:/export; IPv6 hosts and lists of hosts contain colons too
    if separator:
        return host or options.get("addr", ""), f"/{path}"
    host, separator, path = source.partition(":")
    return (host, path) if separator else ("", source)


_MODULE_SETTINGS = (
    ("lustre", "/sys/fs/lustre/llite/*/max_read_ahead_mb"),
    ("lustre", "/sys/fs/lustre/llite/*/max_read_ahead_per_file_mb"),
    ("lustre", "/sys/fs/lustre/llite/*/max_cached_mb"),
    ("lustre", "/proc/fs/lustre/llite/*/max_cached_mb"),
    ("lustre", "/sys/fs/lustre/osc/*/max_rpcs_in_flight"),
    ("lustre", "/sys/fs/lustre/osc/*/max_pages_per_rpc"),
    ("lustre", "/sys/fs/lustre/llite/*/max_read_ahead_whole_mb"),
    ("beegfs", "/proc/fs/beegfs/*/config"),
    ("orangefs", "/proc/sys/pvfs2/*timeout*"),
    ("orangefs", "/sys/fs/orangefs/*timeout*"),
)

_LAYOUT_COMMANDS = {
    "lustre": ["lfs", "getstripe", "-d"],
    "beegfs": ["beegfs-ctl", "--getentryinfo"],
    "gpfs": ["mmlsattr", "-L"],
    "orangefs": ["pvfs2-viewdist", "-f"],
    "moosefs": ["mfsgetgoal"],
    "lizardfs": ["mfsgetgoal"],
    "saunafs": ["saunafs", "getgoal"],
}
_FILESYSTEM_COMMANDS = {
    "lustre": ["lfs", "df"],
    "gpfs": ["mmlsfs"],
    "beegfs": ["beegfs-df"],
}
"""Commands that describe the whole file system: targets, block size, replication.

mmlsfs takes the file system's name.
"""
_LAYOUT_ATTRIBUTES = {
    "ceph": ("ceph.dir.layout", "ceph.file.layout"),
    "glusterfs": ("trusted.glusterfs.pathinfo",),
}
"""Extended attributes with a directory's layout, where no tool is needed."""
_LAYOUT_FIELDS = {
    "stripe_count": (
        r"stripe_count[:=]\s*(-?\d+)|"
        r"Number of storage targets:\s*(?:desired:\s*)?(\d+)"
    ),
    "stripe_size_bytes": r"stripe_size:\s*(\d+)",
    "chunk_size": r"Chunksize:\s*(\S+)",
    "pattern": r"pattern:\s*(\S+)|Type:\s*(RAID\d+)",
    "storage_pool": r"storage pool name:\s*(\S+)",
    "goal": r":\s*(\d+)\s*$",
    "pool": r"\bpool=(\S+)",
    "object_size_bytes": r"\bobject_size=(\d+)",
    "stripe_unit_bytes": r"\bstripe_unit=(\d+)",
}


def parse_layout(text: str) -> dict[str, object]:
    """Return stripe count, size and pattern from a tool's output.

    Tools: `lfs getstripe`, `beegfs-ctl --getentryinfo`, `mmlsattr`. The text itself is kept,
    because layouts can hold more than this (progressive layouts, pools).
    """
    found: dict[str, object] = {}
    for name, pattern in _LAYOUT_FIELDS.items():
        match = re.search(pattern, text)
        if match:
            value = next(group for group in match.groups() if group is not None)
            found[name] = int(value) if re.fullmatch(r"-?\d+", value) else value
    return {**found, "text": text.strip()}


def layout_of(kind: str, directory: Path) -> dict[str, object]:
    """Return a directory's striping, from the file system's own tool or its extended attributes.

    Empty when neither exists.
    """
    for attribute in _LAYOUT_ATTRIBUTES.get(kind, ()):
        with contextlib.suppress(OSError):
            return parse_layout(
                os.getxattr(directory, attribute).decode(errors="replace").rstrip("\0")
            )
    said = _ask(_LAYOUT_COMMANDS.get(kind), str(directory))
    if said is None:
        return {}
    return parse_layout(said) if isinstance(said, str) else said


def _ask(argv: list[str] | None, subject: str) -> str | dict[str, object] | None:
    """Return a tool's output for a directory or file system, or its error; None without tool."""
    program = find_program(argv[0]) if argv else None
    if argv is None or program is None:
        return None
    try:
        said = subprocess.run(
            [program, *argv[1:], subject], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    return said.stdout if said.returncode == 0 else {"error": said.stderr.strip()}


def _whole(kind: str, source: str, directory: Path) -> str:
    """Return the description by the file system's own tool; empty when that fails."""
    said = _ask(
        _FILESYSTEM_COMMANDS.get(kind),
        source.rpartition("/")[2] if kind == "gpfs" else str(directory),
    )
    return said.strip()[:4000] if isinstance(said, str) else ""


def _kind_of(filesystem: str) -> str | None:
    """Return the name of a network file system; None for a type that is local."""
    if (kind := _KINDS.get(filesystem)) is not None:
        return kind
    kind, _, subtype = filesystem.partition(".")
    return (subtype or kind) if kind == "fuse" and subtype not in _LOCAL_FUSE else None


def recognise(mount: Mount, directory: Path | None = None) -> NetworkFilesystem | None:
    """Return the network file system of a mount, None for a local one.

    With `directory`, its stripe layout is read too.
    """
    kind = _kind_of(mount.filesystem)
    if kind is None:
        return None
    options = {
        key: value for key, _, value in (option.partition("=") for option in mount.all_options)
    }
    server, export = _server_and_export(kind, mount.source, options)
    client = {key: value for key, value in options.items() if value and key not in _HIDDEN}
    for owner, pattern in _MODULE_SETTINGS:
        if owner == kind:
            for file in Path("/").glob(pattern.lstrip("/")):
                with contextlib.suppress(OSError):
                    client[f"{file.parent.name}.{file.name}"] = file.read_text().strip()[:4000]
    if directory is None:
        return NetworkFilesystem(kind, server, export, client)
    return NetworkFilesystem(
        kind,
        server,
        export,
        client,
        layout_of(kind, directory),
        _whole(kind, mount.source, directory),
    )
