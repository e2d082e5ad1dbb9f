"""What mountinfo says, read from lines as kernels write them.

Network file systems, their servers and layouts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.system.mounts import Mount, parse_mountinfo
from headrace.system.network_filesystems import parse_layout, recognise
from headrace.system.overlays import in_layer, layers_of

# From machines and manuals: proc(5), nfs(5), mount.ceph(8), the manuals of Lustre, BeeGFS, Spectrum
# Scale, OrangeFS, MooseFS, GlusterFS.
NFS4 = (
    "105 29 0:52 / /data rw,relatime shared:58 - nfs4 nas.cern.ch:/export/data "
    "rw,vers=4.2,rsize=1048576,wsize=1048576,"
    "namlen=255,hard,proto=tcp,nconnect=4,timeo=600,retrans=2,sec=sys,clientaddr=10.0.0.7,local_lock=none,addr=10.0.0.5"
)
NFS_IPV6 = "106 29 0:53 / /six ro - nfs [fe80::1]:/vol rw,vers=3,addr=fe80::1"
LUSTRE = (
    "80 29 0:44 / /lustre rw,flock - lustre 10.1.0.1@o2ib:10.1.0.2@o2ib:/scratch "
    "rw,flock,lazystatfs"
)
CEPH = (
    "81 29 0:45 / /ceph rw - ceph 10.0.0.1:6789,10.0.0.2:6789:/volumes/a "
    "rw,name=admin,secret=<hidden>,acl"
)
CIFS = (
    "82 29 0:46 / /win rw - cifs //files/share rw,vers=3.1.1,username=u,rsize=4194304,password=hush"
)
GLUSTER = (
    "83 29 0:47 / /gluster rw - fuse.glusterfs node1:/gv0 rw,user_id=0,group_id=0,max_read=131072"
)
MOOSE = "84 29 0:48 / /mfs rw - fuse.mfs mfs#mfsmaster:9421 rw,user_id=0,allow_other"
RCLONE = "90 29 0:60 / /dav rw,relatime - fuse.rclone site:user/me rw,user_id=0,group_id=0"
DAVFS = "91 29 0:61 / /dav2 rw - fuse https://me:hush@dav.cern.ch:2443/store rw,user_id=0"
EOS = "92 29 0:62 / /eos rw,relatime - fuse.eosxd eosuser rw,user_id=0"
OVERLAY = "93 29 0:63 / /layers rw - fuse.fuse-overlayfs fuse-overlayfs rw,user_id=0"
ORANGE = "85 29 0:49 / /orange rw - pvfs2 tcp://node1:3334/orangefs rw"
GPFS = "86 29 0:50 / /gpfs/fs1 rw,relatime - gpfs fs1 rw,relatime"
BEEGFS = "87 29 0:51 / /beegfs rw - beegfs beegfs_nodev rw,relatime,cfgFile={config}"
EXT4 = (
    r"27 1 8:1 /sub\040dir /mnt/with\040space rw,noatime master:2 propagate_from:1 - ext4 "
    r"/dev/disk\134x rw,data=ordered"
)


def one(line: str) -> Mount:
    (mount,) = parse_mountinfo(line + "\n")
    return mount


LAYERS = (
    r"94 29 0:64 /in /seen rw - overlay none rw,lowerdir=/a\054b:/c\134:d\040e:rel,upperdir=/up,"
    r"workdir=/w,uuid=on"
)


def test_layers_of_an_overlay() -> None:
    """A comma in a name ended the option."""
    mount = one(LAYERS)
    assert layers_of(mount) == [Path("/up"), Path("/a,b"), Path("/c:d e")]
    assert in_layer(mount, Path("/up"), Path("/seen/x/y")) == Path("/up/in/x/y")
    more = LAYERS.replace(r"lowerdir=/a\054b:/c\134:d\040e:rel", "lowerdir+=/a:b,lowerdir+=/c")
    assert layers_of(one(more)) == [Path("/up"), Path("/a:b"), Path("/c")]
    assert layers_of(one(EXT4)) == []


def test_escapes_and_optional_fields() -> None:
    mount = one(EXT4)
    assert mount.id == 27
    assert mount.device_number == "8:1"
    assert mount.root == "/sub dir"
    assert mount.directory == Path("/mnt/with space")
    assert mount.source == "/dev/disk\\x"
    assert mount.all_options == ("rw", "noatime", "data=ordered")
    assert recognise(mount) is None


@pytest.mark.parametrize(
    ("line", "kind", "server", "export"),
    [
        (NFS4, "nfs", "nas.cern.ch", "/export/data"),
        (NFS_IPV6, "nfs", "[fe80::1]", "/vol"),
        (LUSTRE, "lustre", "10.1.0.1@o2ib:10.1.0.2@o2ib", "scratch"),
        (CEPH, "ceph", "10.0.0.1:6789,10.0.0.2:6789", "/volumes/a"),
        (CIFS, "cifs", "files", "share"),
        (GLUSTER, "glusterfs", "node1", "/gv0"),
        (MOOSE, "moosefs", "mfsmaster:9421", ""),
        (ORANGE, "orangefs", "node1:3334", "orangefs"),
        (GPFS, "gpfs", "", "fs1"),
        (RCLONE, "rclone", "site", "user/me"),
        (DAVFS, "fuse", "dav.cern.ch:2443", "/store"),
        (EOS, "eosxd", "", "eosuser"),
    ],
)
def test_network_file_systems(line: str, kind: str, server: str, export: str) -> None:
    found = recognise(one(line))
    assert found is not None
    assert (found.kind, found.server, found.export) == (kind, server, export)


def test_passwords_in_sources_are_not_shown() -> None:
    assert one(DAVFS).shown_source == "https://me@dav.cern.ch:2443/store"
    assert one(NFS_IPV6).shown_source == "[fe80::1]:/vol"


def test_programs_of_fuse_that_read_local_files_are_no_network() -> None:
    assert recognise(one(OVERLAY)) is None


def test_client_settings_are_kept_and_secrets_are_not() -> None:
    found = recognise(one(NFS4))
    assert found is not None
    assert {
        "vers": "4.2",
        "rsize": "1048576",
        "nconnect": "4",
        "proto": "tcp",
    }.items() <= found.client.items()
    for line in (CEPH, CIFS):
        found = recognise(one(line))
        assert found is not None
        assert not {"secret", "password"} & found.client.keys()
        assert "hush" not in str(found.as_dict())


def test_beegfs_names_its_server_in_a_file(tmp_path: Path) -> None:
    config = tmp_path / "beegfs-client.conf"
    config.write_text("# client\nsysMgmtdHost                 = mgmt.cluster\nconnUseRDMA = true\n")
    found = recognise(one(BEEGFS.format(config=config)))
    assert found is not None
    assert found.server == "mgmt.cluster"


def test_layouts() -> None:
    lustre = parse_layout(
        "stripe_count:  4 stripe_size:   1048576 pattern:       raid0 stripe_offset: -1\n"
    )
    assert lustre["stripe_count"] == 4
    assert lustre["stripe_size_bytes"] == 1048576
    assert lustre["pattern"] == "raid0"
    beegfs = parse_layout(
        "EntryID: root\nMetadata node: meta01 [ID: 1]\nStripe pattern details:\n+ Type: RAID0\n+ "
        "Chunksize: 512K\n"
        "+ Number of storage targets: desired: 4\n+ Storage Pool: 1 (Default)\n"
    )
    assert (beegfs["pattern"], beegfs["chunk_size"], beegfs["stripe_count"]) == ("RAID0", "512K", 4)
    gpfs = parse_layout(
        "file name: /gpfs/fs1/x\nstorage pool name:    system\nmetadata replication: 1 max 2\n"
    )
    assert gpfs["storage_pool"] == "system"
    assert gpfs["text"].startswith("file name")
