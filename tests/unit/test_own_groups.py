"""Files of control groups as kernels print them, and uses that add up."""

from __future__ import annotations

from headrace.watching.foreign_io import disk_bytes
from headrace.watching.own_groups import GroupUse, MovedBytes, PressureStall, blkio_bytes, io_stat


def test_bytes_of_version_2_by_device() -> None:
    """As Documentation/admin-guide/cgroup-v2.rst shows it, with a device that has no counts, and
    the fields that io.cost adds."""
    text = (
        b"8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n"
        b"8:0 rbytes=90430464 wbytes=299008000 rios=8950 wios=1252 dbytes=50331648 dios=3021"
        b" cost.usage=12 cost.wait=3\n"
        b"254:1 \n"
    )
    assert io_stat(text) == {
        "8:16": MovedBytes(1459200, 314773504),
        "8:0": MovedBytes(90430464, 299008000),
    }


def test_bytes_of_version_1_by_device() -> None:
    text = (
        b"7:4 Read 125529088\n7:4 Write 150511616\n7:4 Sync 276033536\n7:4 Async 7168\n"
        b"7:4 Discard 0\n7:4 Total 276040704\n8:0 Read 4096\n8:0 Write 0\nTotal 276044800\n"
    )
    assert blkio_bytes(text) == {"7:4": MovedBytes(125529088, 150511616), "8:0": MovedBytes(4096)}


def test_uses_since_a_look_add_up() -> None:
    first = GroupUse({"sda": MovedBytes(100, 10)}, {"io": PressureStall(1.0, 0.5)})
    then = GroupUse(
        {"sda": MovedBytes(150, 10), "sdb": MovedBytes(7)}, {"io": PressureStall(3.0, 0.5)}
    )
    grown = then - first
    assert grown.io == {"sda": MovedBytes(50), "sdb": MovedBytes(7)}
    assert grown.stalls == {"io": PressureStall(2.0, 0.0)}
    assert (first + grown).io == then.io and (first + grown).stalls == then.stalls


def test_bytes_of_disks_without_their_partitions() -> None:
    text = (
        " 254       0 vda 1282529 189724 85256822 485119 237259 960372 79906108 432376 0 134504 9\n"
        " 254       1 vda1 1282000 189724 85250000 485119 237259 960372 79900000 432376 0 13450 9\n"
    )
    assert disk_bytes(text, ["vda"]) == {"vda": MovedBytes(85256822 * 512, 79906108 * 512)}
