"""Unit: the types by which calls of a node are decoded."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headrace.launchers import Agent
from headrace.launchers.remote.messages import FromNode, Hello, NodeAbilities, Reaped, types_of
from headrace.launchers.remote.node_process import NodeService
from headrace.meters.node_meters import NodeMeters
from headrace.targets.node_storage import NodeStorage

METHODS = {
    f"{owner.__name__}.{name}": method
    for owner in (Agent, NodeMeters, NodeService, NodeStorage)
    for name, method in inspect.getmembers(owner, inspect.isfunction)
    if not name.startswith("_")
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_types_of_every_method_of_a_node_can_be_decoded(method: Callable[..., Any]) -> None:
    """With the types of their fields, which their modules must import when they run."""
    for kind in types_of(method):
        msgspec.msgpack.Decoder(kind)


@pytest.mark.parametrize("kind", [FromNode, Hello, NodeAbilities, Reaped], ids=str)
def test_messages_of_a_node_can_be_decoded(kind: Any) -> None:
    msgspec.msgpack.Decoder(kind)
