"""Targets: fields of storage whose servers are the user's own, on other machines.

Kinds that jobs reach over a network inherit them; the engine starts an agent on each server
(`headrace.engine.measure.target_servers`), and no kind has code for it.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from headrace.refusals import form
from headrace.system.setting_names import NAMES
from headrace.targets import TargetOptions
from headrace.units import MOST_QUEUED, Bytes

PREFIX = "server_"
SERVER_SETTINGS = frozenset(PREFIX + name for name in NAMES)
"""Option fields that can change on a prepared target."""


class ServerOptions(TargetOptions):
    """Fields of `[target.NAME]` for servers that exist already."""

    server_agents: str | None = Field(
        None,
        pattern=form(r"^ssh://[^\s/]+$", "ssh://HOST or ssh://USER@HOST:PORT"),
        description="measured: ssh://root@HOST,root@HOST: servers of this storage; an agent on "
        "each drops its caches, applies server_scheduler …, and samples probes and meters",
    )
    server_python: str | None = Field(
        None,
        pattern=form(r"^[^-\s][^\x00-\x1f]*$", "a path that begins with no space or -"),
        description="path of the Python with Headrace on the servers; the path of this one when "
        "not given",
    )
    server_directory: str | None = Field(
        None,
        pattern=form(r"^/[^\x00-\x1f]*$", "a path from /"),
        description="folder on each server that holds the data: its disks are sampled and set",
    )
    server_scheduler: str | None = Field(
        None, description="I/O scheduler of the servers' disks (needs root there)"
    )
    server_queue_depth: int | None = Field(
        None,
        ge=1,
        le=MOST_QUEUED,
        description="requests that each disk of the servers takes at once (needs root)",
    )
    server_read_ahead: Bytes | None = Field(
        None, description="read-ahead of the servers' file systems (needs root there)"
    )

    @model_validator(mode="after")
    def _of_servers(self) -> Any:
        given = {name for name in type(self).model_fields if name.startswith(PREFIX)}
        used = sorted(name for name in given if getattr(self, name) is not None)
        if used and self.server_agents is None:
            raise ValueError(
                f'{used[0]} is for servers: state server_agents = "ssh://root@HOST" as well'
            )
        settings = sorted(SERVER_SETTINGS & {*used})
        if settings and self.server_directory is None:
            raise ValueError(
                f"{settings[0]} is a setting of the disks below server_directory, which is missing"
            )
        if self.server_agents is not None and (why_not := self.why_no_servers()) is not None:
            raise ValueError(f"server_agents: {why_not}")
        return self

    def why_no_servers(self) -> str | None:
        """Return why this storage has no servers that exist already; None if it has."""
        return None
