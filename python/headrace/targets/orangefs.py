"""Target `orangefs`, in virtual time only.

Files are striped over all servers; no client cache; several metadata servers.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from typing_extensions import override

from headrace.labels import Label
from headrace.site import Site
from headrace.targets import ModelledStorage, TargetOptions
from headrace.targets.exports import Export, ServedOptions
from headrace.targets.modelled import ModelledTarget
from headrace.units import MOST_HOSTS, Bytes


class OrangefsOptions(ServedOptions):
    """`[target.NAME]` with `kind = "orangefs"`."""

    export: Export = Field(
        default_factory=lambda: Export.model_validate({}), description="what each server stores on"
    )
    stripe_size: Bytes = Field(64 << 10, ge=4096, description="bytes of a stripe")
    metadata_server: str | None = Field(
        None,
        description="name of a [site.server.NAME] with `drives` whose cores and first drive the "
        "metadata operations use; times without a machine when not given",
    )
    name_nodes: Annotated[int, Label("{} metadata server", "{} metadata servers")] = Field(
        1, ge=1, le=MOST_HOSTS, description="metadata servers"
    )


class Orangefs(ModelledTarget):
    """An OrangeFS (PVFS) filesystem."""

    kind = "orangefs"
    label: ClassVar[str] = "OrangeFS"
    Options: ClassVar[type[TargetOptions]] = OrangefsOptions
    service_kind = "orangefs"

    @override
    def metadata_server(self) -> str | None:
        return self.options.metadata_server

    @override
    def model(self, site: Site | None) -> ModelledStorage:
        """Data servers; some of them also are metadata servers."""
        options: OrangefsOptions = self.options
        return self.served(
            site,
            options.export,
            {"stripe_bytes": options.stripe_size, "metadata_servers": options.name_nodes},
        )
