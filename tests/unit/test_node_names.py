"""Servers that storages name, and the nodes that they are."""

import pytest

from headrace.engine.measure.node_names import NodeNames

NODES = NodeNames(
    {"node-0": "wn1.example.invalid", "node-1": "wn2", "node-2": "big", "node-3": "192.0.2.7"}
)


@pytest.mark.parametrize(
    ("server", "nodes"),
    [
        ("wn1", ("node-0",)),
        ("WN1.example.invalid", ("node-0",)),
        ("wn1.example.invalid.", ("node-0",)),
        ("wn10.example.invalid", ()),
        ("192.0.2.7", ("node-3",)),
        ("wn2.example.invalid", ("node-1",)),
        ("192.0.2.8", ()),
        ("127.0.0.1", ()),
        ("big", ("node-2",)),
        ("node-1", ()),
        ("node-1.example.invalid", ()),
    ],
)
def test_a_server_is_the_node_of_its_machine(server: str, nodes: tuple[str, ...]) -> None:
    assert NODES.nodes_of(server) == nodes


def test_several_nodes_of_a_machine_are_all_near_its_server() -> None:
    assert NodeNames({"a": "host", "b": "host", "c": "other"}).nodes_of("host") == ("a", "b")


def test_a_machine_that_is_called_like_another_node_is_not_that_node() -> None:
    """As with on = "ssh://node-1,node-2": the nodes are called node-0 and node-1."""
    names = NodeNames({"node-0": "node-1", "node-1": "node-2"})
    place = names.place_of(["node-1", "node-2", "node-0"], "file")
    assert place.servers == ("node-0", "node-1", "server node-0")
    alone = names.place_of(["node-0"], "file")
    assert not {"node-0", "node-1"} & alone.nodes
