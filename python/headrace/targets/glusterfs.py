"""Target `glusterfs`: whole files on bricks by a hash of their name, in virtual time."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import override

from headrace.targets import ModelledStorage, TargetOptions
from headrace.targets.modelled import Bricks, ModelledTarget, ServedOptions


class GlusterfsOptions(ServedOptions):
    """`[target.NAME]` with `kind = "glusterfs"`."""

    bricks: Bricks = Field(description='on the compute nodes (on = "node") or on servers, and of which drive')
    replicas: int = Field(1, ge=1, description="copies of each file")


class Glusterfs(ModelledTarget):
    """A GlusterFS volume."""

    kind = "glusterfs"
    Options: ClassVar[type[TargetOptions]] = GlusterfsOptions
    service_kind = "glusterfs"

    @override
    def model(self, site: Any) -> ModelledStorage:
        """Bricks, and a FUSE client on every node."""
        options: GlusterfsOptions = self.options
        return self.on_bricks(site, options.bricks, {"replicas": options.replicas})
