"""Base layer: interfaces, addresses and queues of a network namespace, by netlink (pyroute2).

    in_network("headrace-1-nas", lambda network: network.set("eth0", mtu=9000, state="up"))

What the kernel refuses is a HeadraceError that names the interface, the namespace and the reason.
"""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headrace.errors import HeadraceError
from headrace.system.network_namespaces import FOLDER, call_in_new, call_inside

Value = TypeVar("Value")

_ROOT = 0xFFFFFFFF
"""Parent of an interface's first queue (TC_H_ROOT)."""


@dataclass(frozen=True)
class LinkQueue:
    """A queue of an interface (tc(8): qdisc)."""

    kind: str
    handle: str
    parent: str | None = None
    """Class of the queue above; None for the first."""
    options: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes and bytes per second for tbf, packets for limits of others, microseconds for delays."""


def in_network(namespace: str, work: Callable[[Network], Value]) -> Value:
    """Call `work` with the network of a namespace and return its result. Raises HeadraceError."""
    return call_inside(namespace, lambda: _with_connection(namespace, work))


def in_new_network(work: Callable[[Network], Value]) -> Value:
    """Call `work` with the network of a new namespace, which ends with the call.

    Raises HeadraceError.
    """
    return call_in_new(lambda: _with_connection("a new namespace", work))


def _with_connection(namespace: str, work: Callable[[Network], Value]) -> Value:
    # Late: the import takes up to a second, and most commands build no cluster.
    from headrace.system.cluster import token_bucket

    token_bucket.register()
    with importlib.import_module("pyroute2").IPRoute() as connection:
        return work(Network(connection, namespace))


class Network:
    """The network of the namespace that the calling thread is in."""

    def __init__(self, connection: Any, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace

    def add_bridge(self, name: str) -> None:
        """Create a bridge."""
        with self._explained(f"a bridge {name}", "bridge"):
            self._connection.link("add", ifname=name, kind="bridge")

    def add_cable(self, name: str, end: str, namespace: str) -> None:
        """Create two connected interfaces: `name` here and `end` in another namespace."""
        handle = os.open(FOLDER / namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with self._explained(f"a cable {name}", "veth"):
                self._connection.link(
                    "add", ifname=name, kind="veth", peer={"ifname": end, "net_ns_fd": handle}
                )
        finally:
            os.close(handle)

    def add_address(self, name: str, address: str, prefix: int) -> None:
        """Give an interface an IPv4 address."""
        with self._explained(f"address {address} of {name}"):
            self._connection.addr("add", index=self._index(name), address=address, prefixlen=prefix)

    def set(self, name: str, *, bridge: str | None = None, **settings: str | int) -> None:
        """Change an interface: `state` (up or down), `mtu`, `txqlen`, and the bridge it is in."""
        if bridge is not None:
            settings["master"] = self._index(bridge)
        with self._explained(f"{', '.join(settings)} of {name}"):
            self._connection.link("set", index=self._index(name), **settings)

    def get(self, name: str) -> dict[str, object]:
        """Return `mtu` and `txqlen` of an interface."""
        with self._explained(f"interface {name}"):
            (found,) = self._connection.link("get", index=self._index(name))
        return {setting: found.get(setting) for setting in ("mtu", "txqlen")}

    def set_queues(self, name: str, queues: list[LinkQueue]) -> None:
        """Replace the queues of an interface."""
        index = self._index(name)
        for queue in self._queues(index):
            # The kernel's own first queue has no handle and cannot be deleted.
            if queue["parent"] == _ROOT and queue["handle"]:
                with self._explained(f"the queues of {name}"):
                    self._connection.tc("del", index=index, parent=_ROOT, handle=queue["handle"])
        for queue in queues:
            parent = _ROOT if queue.parent is None else queue.parent
            with self._explained(f"a queue {queue.kind} of {name}", f"sch_{queue.kind}"):
                self._connection.tc(
                    "add", queue.kind, index, queue.handle, parent=parent, **queue.options
                )

    def queues(self, name: str) -> list[dict[str, object]]:
        """Return the kind and options of every queue of an interface, as read back."""
        return [
            {"kind": queue.get("kind"), **_described(queue.get("kind"), queue.get("options"))}
            for queue in self._queues(self._index(name))
        ]

    def _queues(self, index: int) -> list[Any]:
        with self._explained("the queues"):
            return [queue for queue in self._connection.tc("dump") if queue["index"] == index]

    def _index(self, name: str) -> int:
        with self._explained(f"interface {name}"):
            found = list(self._connection.link_lookup(ifname=name))
        if not found:
            raise HeadraceError(f"network namespace {self._namespace} has no interface {name}")
        return int(found[0])

    @contextmanager
    def _explained(self, what: str, module: str = "") -> Generator[None]:
        """Raise HeadraceError with the kernel's reason; `module` is what may be missing in it."""
        refused: Any = importlib.import_module("pyroute2").NetlinkError
        try:
            yield
        except refused as error:
            reason = os.strerror(error.code)
            if module and error.code in (errno.EOPNOTSUPP, errno.ENOENT):
                reason = f"the kernel has no {module} ({reason})"
            raise HeadraceError(
                f"{what} in network namespace {self._namespace} cannot be set: {reason}"
            ) from error


def _described(kind: str, options: Any) -> dict[str, object]:
    """Return the options of a queue with their units; none of kinds that no link here has."""
    from headrace.system.cluster import token_bucket

    if kind == "tbf":
        return {**token_bucket.described(options)}
    if kind == "netem":
        delay_s = token_bucket.seconds(options["delay"])
        return {"delay_s": delay_s, "limit_packets": options["limit"]}
    return {"limit_packets": options["limit"]} if kind == "pfifo" else {}
