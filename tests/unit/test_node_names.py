"""Servers that storages name, and the nodes that they are."""

import pytest

from headrace.engine.measure.node_names import NodeNames

NODES = NodeNames({"wn1": "wn1.example.invalid", "192.0.2.7": "wn2", "node-2": "big"})


@pytest.mark.parametrize(
    ("server", "nodes"),
    [
        ("wn1", ("wn1",)),
        ("WN1.example.invalid", ("wn1",)),
        ("wn1.example.invalid.", ("wn1",)),
        ("wn10.example.invalid", ()),
        ("192.0.2.7", ("192.0.2.7",)),
        ("wn2.example.invalid", ("192.0.2.7",)),
        ("192.0.2.8", ()),
        ("127.0.0.1", ()),
        ("big", ("node-2",)),
    ],
)
def test_a_server_is_the_node_of_its_machine(server: str, nodes: tuple[str, ...]) -> None:
    assert NODES.nodes_of(server) == nodes


def test_several_nodes_of_a_machine_are_all_near_its_server() -> None:
    assert NodeNames({"a": "host", "b": "host", "c": "other"}).nodes_of("host") == ("a", "b")
