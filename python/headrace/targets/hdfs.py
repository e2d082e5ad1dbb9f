"""Target `hdfs`: blocks on data nodes, a name node, a pipeline of replicas on writes, in virtual time."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import override

from headrace.targets import ModelledStorage, TargetOptions
from headrace.targets.modelled import Bricks, ModelledTarget, ServedOptions
from headrace.units import Bytes


class HdfsOptions(ServedOptions):
    """`[target.NAME]` with `kind = "hdfs"`."""

    bricks: Bricks = Field(
        default_factory=lambda: Bricks.model_validate({}),
        description="where the data nodes are, and what they store on",
    )
    replicas: int = Field(3, ge=1, description="copies of each block")
    block_size: Bytes = Field(64 << 20, ge=1 << 20, description="bytes of a block")


class Hdfs(ModelledTarget):
    """A Hadoop filesystem."""

    kind = "hdfs"
    Options: ClassVar[type[TargetOptions]] = HdfsOptions
    service_kind = "hdfs"

    @override
    def model(self, site: Any) -> ModelledStorage:
        """Data nodes on the compute nodes, or on servers."""
        options: HdfsOptions = self.options
        tuning = {"replicas": options.replicas, "block_bytes": options.block_size}
        if options.server is not None:
            return self.served(site, options.bricks, tuning)
        return self.on_bricks(site, options.bricks, tuning)
