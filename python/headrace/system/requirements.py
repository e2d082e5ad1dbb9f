"""Base layer: the programs that Headrace calls, their purpose, and how to install them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from headrace.errors import MissingError, Problem


@dataclass(frozen=True)
class Requirement:
    """One program and the package that provides it."""

    program: str
    package: str
    """The Debian package."""
    purpose: str


REQUIREMENTS: dict[str, Requirement] = {
    requirement.program: requirement
    for requirement in (
        Requirement("mkfs.ext3", "e2fsprogs", "making an ext3 file system"),
        Requirement("mkfs.ext4", "e2fsprogs", "making an ext4 file system"),
        Requirement("mkfs.xfs", "xfsprogs", "making an xfs file system"),
        Requirement("mkfs.btrfs", "btrfs-progs", "making a btrfs file system"),
        Requirement("mount", "mount", "mounting file systems"),
        Requirement("blkid", "util-linux", "seeing what a device holds before it is formatted"),
        Requirement("setpriv", "util-linux", "ending started programs together with Headrace"),
        Requirement("nsenter", "util-linux", "programs on a node of a cluster built here"),
        Requirement("taskset", "util-linux", "the processors of a node of a cluster built here"),
        Requirement(
            "ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs", "the NFS server of target `nfs`"
        ),
        Requirement("rpcbind", "rpcbind", "NFS version 3"),
        Requirement("mount.nfs", "nfs-common", "the kernel's NFS client"),
        Requirement("xrootd", "xrootd-server", "the servers of target `xrootd`"),
        Requirement("cmsd", "xrootd-server", "the redirector of target `xrootd`"),
        Requirement("xrdcp", "xrootd-client", "copying to and from XRootD servers"),
        Requirement("xrdfs", "xrootd-client", "asking XRootD servers"),
        Requirement("fio", "fio", "the workloads `sequential` and `random`"),
        Requirement(
            "lfs", "lustre-client-utils", "reading the stripe layout of a Lustre directory"
        ),
        Requirement(
            "beegfs-ctl", "beegfs-utils", "reading the stripe layout of a BeeGFS directory"
        ),
        Requirement("beegfs-df", "beegfs-utils", "the storage targets of a BeeGFS"),
        Requirement("mmlsfs", "gpfs.base", "settings of a GPFS file system"),
        Requirement("mfsgetgoal", "moosefs-client", "copies of a MooseFS directory's files"),
        Requirement("mmlsattr", "gpfs.base", "reading the layout of a GPFS directory"),
        Requirement("pvfs2-viewdist", "orangefs", "reading the layout of an OrangeFS directory"),
        Requirement("gluster", "glusterfs-cli", "making and setting a GlusterFS volume"),
        Requirement("glusterd", "glusterfs-server", "GlusterFS servers that the study starts"),
        Requirement("glusterfsd", "glusterfs-server", "GlusterFS servers that the study starts"),
        Requirement("glusterfs", "glusterfs-client", "mounting a GlusterFS volume"),
        Requirement("java", "default-jre-headless", "HDFS servers that the study starts"),
        Requirement("mvn", "maven", "fetching Hadoop's Java archives"),
        Requirement("ipmitool", "ipmitool", "the meter `ipmi`"),
    )
}
"""Every program by its name."""

_SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"


def find_program(name: str) -> str | None:
    """Return the full path of a program, None when missing.

    Also searches the system directories that a user's PATH may leave out.
    """
    return shutil.which(name) or shutil.which(name, path=_SYSTEM_FOLDERS)


def remedy(name: str) -> str:
    """Return the command that installs this program."""
    known = REQUIREMENTS.get(name)
    return f"apt-get install {known.package}" if known else f"install {name}"


def require_program(name: str) -> str:
    """Return the full path of a program. Raises MissingError that names the package."""
    path = find_program(name)
    if path is None:
        raise MissingError(f"the program {name} is not installed", hint=remedy(name))
    return path


def missing_program(
    name: str, needed_by: str, *, fatal: bool = True, without: str = ""
) -> Problem | None:
    """Return the problem that this program is missing, None when it is installed."""
    if find_program(name) is not None:
        return None
    return Problem(
        f"the program {name} is not installed",
        needed_by,
        remedy(name),
        fatal=fatal,
        without=without,
    )
