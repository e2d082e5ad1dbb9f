"""Base layer: create and delete named network namespaces, as `ip netns` does (ip-netns(8))."""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from headrace.errors import HeadraceError

Value = TypeVar("Value")

FOLDER = Path("/run/netns")
"""iproute2's directory of named namespaces."""
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def create(name: str) -> None:
    """Create a network namespace. Raises HeadraceError, after which its file may exist."""
    netns = _netns()

    def attach() -> None:
        try:
            netns.attach(str(FOLDER / name), threading.get_native_id(), _libc)
        except OSError as error:
            raise HeadraceError(
                f"the network namespace {name} cannot be created: {os.strerror(error.errno or 0)}"
            ) from error

    call_in_new(attach)


def delete(name: str) -> bool:
    """Delete the name of a network namespace; False when it does not exist.

    The namespace itself ends with its last process. Raises OSError when it is still mounted.
    """
    try:
        _netns().remove(str(FOLDER / name), _libc)
    except FileNotFoundError:
        return False
    return True


def enter(namespace: str) -> None:
    """Move the calling thread into a network namespace for ever. Raises HeadraceError."""
    try:
        handle = os.open(FOLDER / namespace, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise HeadraceError(
            f"the network namespace {namespace} is gone: {error.strerror}"
        ) from error
    try:
        if _libc.setns(handle, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise HeadraceError(
                f"the network namespace {namespace} cannot be entered: {os.strerror(number)}"
            )
    finally:
        os.close(handle)


def call_inside(namespace: str | None, function: Callable[[], Value]) -> Value:
    """Call a function in a thread inside a network namespace.

    Sockets and files of /proc/net that it opens stay in that namespace.
    """
    if namespace is None:
        return function()
    return _call_in_thread(lambda: enter(namespace), function)


def call_in_new(function: Callable[[], Value]) -> Value:
    """Call a function in a thread inside a new network namespace, which ends with the call.

    Raises HeadraceError when it cannot be created.
    """

    def unshare() -> None:
        if _libc.unshare(_CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise HeadraceError(f"a network namespace cannot be created: {os.strerror(number)}")

    return _call_in_thread(unshare, function)


def _call_in_thread(move: Callable[[], None], function: Callable[[], Value]) -> Value:
    found: list[Value] = []
    failures: list[BaseException] = []

    def inside() -> None:
        try:
            move()
            found.append(function())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=inside, name="headrace-in-namespace")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return found[0]


def _netns() -> Any:
    """Return pyroute2's module, imported late: that takes up to a second.

    Its calls get our C library, since it runs programs to find one. `attach` is used instead of
    `create`, which forks this process with all its threads.
    """
    return importlib.import_module("pyroute2.netns")
