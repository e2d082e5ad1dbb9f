"""Target `orangefs`: files striped over all servers, no cache on the client, several metadata servers, in virtual time."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import override

from headrace.targets import ModelledStorage, TargetOptions
from headrace.targets.modelled import Export, ModelledTarget, ServedOptions
from headrace.units import Bytes


class OrangefsOptions(ServedOptions):
    """`[target.NAME]` with `kind = "orangefs"`."""

    export: Export = Field(
        default_factory=lambda: Export.model_validate({}), description="what each server stores on"
    )
    stripe_size: Bytes = Field(64 << 10, ge=4096, description="bytes of a stripe")
    name_nodes: int = Field(1, ge=1, description="metadata servers")


class Orangefs(ModelledTarget):
    """An OrangeFS (PVFS) filesystem."""

    kind = "orangefs"
    Options: ClassVar[type[TargetOptions]] = OrangefsOptions
    service_kind = "orangefs"

    @override
    def model(self, site: Any) -> ModelledStorage:
        """Data servers, and metadata servers among them."""
        options: OrangefsOptions = self.options
        return self.served(
            site,
            options.export,
            {"stripe_bytes": options.stripe_size, "metadata_servers": options.name_nodes},
        )
