"""Targets: a local storage on several nodes: each node has its own file system on its own drive.

This is not a target kind: the code that builds nodes calls `on_nodes`. A setting has one value for
all nodes and counts as applied if every node applied it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import override

from headrace.errors import HeadraceError, Problem
from headrace.system.claims import Place
from headrace.targets import Location, Setting, Target, TargetContext
from headrace.targets.elsewhere import TargetElsewhere
from headrace.targets.releasing import release_all


def on_nodes(target: Target, count: int, *, elsewhere: bool = False) -> Target:
    """Return the target for `count` nodes: `target` itself if all nodes share one storage or there
    is only one node, on this machine.

    `elsewhere`: nodes are other machines.
    """
    if elsewhere and target.on_each_node():
        numbers = range(count)
        return LocalDrives(
            target,
            [TargetElsewhere(target.on_local_drive(number) or target) for number in numbers],
        )
    each = [target.on_local_drive(number) for number in range(count)] if count > 1 else []
    own = [one for one in each if one is not None]
    return LocalDrives(target, own) if own and len(own) == count else target


class LocalDrives(Target):
    """One target per node, presented as one target."""

    def __init__(self, target: Target, each: Sequence[Target]) -> None:
        super().__init__(target.name, target.options)
        self._each = tuple(each)
        self._found: dict[int, Location] = {}
        """By node, of the last set-up: a lost node that no trial needs keeps its own."""

    @property
    def each(self) -> tuple[Target, ...]:
        """The target of each node, by number."""
        return self._each

    @override
    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        problems: dict[str, Problem] = {}
        for one in self._each:
            for problem in one.check(forced_devices):
                problems.setdefault(problem.what, problem)
        places = [place.path for place in self.claims()]
        twice = [path for path, count in Counter(places).items() if count > 1]
        if twice:
            what = f"the nodes are one machine, and {twice[0]} would be the storage of several"
            remedy = "give each its own: {node} in a path stands for the number of the node"
            problems[what] = Problem(what, f"target {self.name}", remedy)
        return list(problems.values())

    @override
    def claims(self) -> list[Place]:
        return [place for one in self._each for place in one.claims()]

    @override
    def only_here(self) -> str | None:
        return self._each[0].only_here()

    @override
    def unsupported(self) -> str | None:
        return self._each[0].unsupported()

    @override
    def free_bytes(self) -> int | None:
        return self._each[0].free_bytes()

    @override
    def memory_bytes(self) -> int:
        return sum(one.memory_bytes() for one in self._each)

    @override
    def prepare(self, context: TargetContext) -> Location:
        made: list[Location] = []
        try:
            for number, one in enumerate(self._each):
                there = context.on_node(number)
                try:
                    if number not in self._found or not _is_lost(there):
                        self._found[number] = one.prepare(there)
                    made.append(self._found[number])
                except HeadraceError as error:
                    node = (context.client_nodes or ())[number : number + 1]
                    error.message = f"{node[0] if node else f'node {number}'}: {error.message}"
                    raise
        except BaseException:
            self.release(context)
            raise
        first = made[0]
        directories = tuple(
            location.directory for location in made if location.directory is not None
        )
        return replace(
            first,
            node_directories=directories,
            local_drives=True,
            device_names=tuple(
                dict.fromkeys(name for location in made for name in location.device_names)
            ),
            node_devices=tuple(location.device_names for location in made),
            disks=tuple(disk for location in made for disk in location.disks),
            description={
                **first.description,
                "nodes": [
                    {**location.description, "devices": list(location.device_names)}
                    for location in made
                ],
            },
            emulated=tuple(device for location in made for device in location.emulated),
            verify_after_crash=_verify_after_crash(
                [location.verify_after_crash for location in made]
            ),
        )

    @override
    def apply(self, options: Any, context: TargetContext) -> list[Setting]:
        found = [
            one.apply(options, context.on_node(number))
            for number, one in enumerate(self._each)
            if not _is_lost(context.on_node(number))
        ]
        return [
            next((setting for setting in settings if not setting.applied), settings[0])
            for settings in zip(*found, strict=True)
        ]

    @override
    def read_settings(self) -> dict[str, object]:
        reached = [
            one for one in self._each if not (isinstance(one, TargetElsewhere) and one.is_lost)
        ]
        # Without any, the first raises what all have in common: its node is lost.
        first, *others = [one.read_settings() for one in reached or self._each]
        return {
            name: value
            if all(other.get(name) == value for other in others)
            else ", ".join(
                f"node {at}: {each.get(name)}" for at, each in enumerate([first, *others])
            )
            for name, value in first.items()
        }

    @override
    def drop_caches(self, context: TargetContext) -> None:
        for one in self._each:
            one.drop_caches(context)

    @override
    def release(self, context: TargetContext) -> None:
        release_all(
            self.name, [lambda one=one: one.release(context) for one in reversed(self._each)]
        )


def _is_lost(there: TargetContext) -> bool:
    """Return whether a node cannot be reached; a trial that needs it does not start."""
    return any(storage.is_lost for storage in there.storages)


def _verify_after_crash(each: Sequence[Callable[[], str] | None]) -> Callable[[], str] | None:
    looks = [look for look in each if look is not None]
    if len(looks) < len(each):
        return None

    def look() -> str:
        return "; ".join(f"node {number}: {one()}" for number, one in enumerate(looks))

    return look
