"""Unit: the types by which calls of a node are decoded."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from headrace.launchers import Agent
from headrace.launchers.remote.messages import types_of
from headrace.meters.node_meters import NodeMeters
from headrace.targets.node_storage import NodeStorage

METHODS = {
    f"{owner.__name__}.{name}": method
    for owner in (Agent, NodeMeters, NodeStorage)
    for name, method in inspect.getmembers(owner, inspect.isfunction)
    if not name.startswith("_")
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_types_of_every_method_of_a_node_are_known(method: Callable[..., Any]) -> None:
    """Its module may import them for the type checker alone."""
    types_of(method)
