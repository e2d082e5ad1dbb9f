"""Which data nodes a file in HDFS is local to."""

import socket
import threading

import pytest

from headrace.system.servers import hdfs_blocks
from headrace.system.servers.hdfs_blocks import LocatedBlock, holders, located_blocks


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


def test_a_server_that_speaks_no_http_is_no_usable_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(hdfs_blocks, "NAME_HTTP_PORT", server.getsockname()[1])

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ValueError, match="no answer over HTTP"):
            located_blocks("127.0.0.1", "/data", 60.0)
        thread.join()
