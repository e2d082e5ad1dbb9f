"""Which data nodes a file in HDFS is local to."""

from headrace.system.servers.hdfs_blocks import LocatedBlock, holders


def block(size: int, *addresses: str) -> LocatedBlock:
    return {
        "block": {"numBytes": size},
        "locations": [{"ipAddr": address} for address in addresses],
    }


def test_a_file_is_where_at_least_half_of_its_bytes_are() -> None:
    blocks = [block(64, "10.0.0.1", "10.0.0.2"), block(64, "10.0.0.2", "10.0.0.3"), block(1)]
    assert holders(blocks) == ("10.0.0.2",)
    assert holders(blocks[:2]) == ("10.0.0.2", "10.0.0.1", "10.0.0.3")


def test_a_file_without_blocks_is_nowhere() -> None:
    assert holders([]) == ()
