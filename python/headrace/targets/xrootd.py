"""Target `xrootd`: whole files on data servers behind a redirector, vectored reads, in virtual time. Also stands for a site's storage
element that jobs read over the network."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import override

from headrace.targets import ModelledStorage, TargetOptions
from headrace.targets.modelled import Bricks, ModelledTarget, ServedOptions


class XrootdOptions(ServedOptions):
    """`[target.NAME]` with `kind = "xrootd"`."""

    bricks: Bricks = Field(
        default_factory=lambda: Bricks.model_validate({}),
        description="where the data servers are, and what they store on",
    )


class Xrootd(ModelledTarget):
    """XRootD data servers."""

    kind = "xrootd"
    Options: ClassVar[type[TargetOptions]] = XrootdOptions
    service_kind = "xrootd"

    @override
    def model(self, site: Any) -> ModelledStorage:
        """Data servers on the compute nodes (a job on the same node reads its disk), or on servers."""
        options: XrootdOptions = self.options
        if options.server is not None:
            return self.served(site, options.bricks, {})
        return self.on_bricks(site, options.bricks, {})
