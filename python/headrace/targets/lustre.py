"""Target `lustre`, in virtual time only.

Files are striped over object storage targets; one metadata server; clients with a large read-ahead.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from typing_extensions import override

from headrace.site import Site
from headrace.targets import ModelledStorage, TargetOptions
from headrace.targets.exports import Export, ServedOptions
from headrace.targets.modelled import ModelledTarget
from headrace.units import MOST_HOSTS, Bytes


class LustreOptions(ServedOptions):
    """`[target.NAME]` with `kind = "lustre"`."""

    export: Export = Field(
        default_factory=lambda: Export.model_validate({}),
        description="what each object storage target stores on",
    )
    stripe_count: int = Field(
        1, ge=0, le=MOST_HOSTS, description="targets that a file is striped over; 0: all"
    )
    stripe_size: Bytes = Field(1 << 20, ge=64 << 10, description="bytes of a stripe")
    metadata_server: str | None = Field(
        None,
        description="name of a [site.server.NAME] with `drives` whose cores and first drive the "
        "metadata operations use; times without a machine when not given",
    )
    client_read_ahead: Bytes | None = Field(
        None, description="most that a client reads ahead of a file"
    )


class Lustre(ModelledTarget):
    """A Lustre filesystem."""

    kind = "lustre"
    label: ClassVar[str] = "Lustre"
    Options: ClassVar[type[TargetOptions]] = LustreOptions
    service_kind = "lustre"

    @override
    def metadata_server(self) -> str | None:
        return self.options.metadata_server

    @override
    def model(self, site: Site | None) -> ModelledStorage:
        """Object storage servers with one target each."""
        options: LustreOptions = self.options
        tuning: dict[str, object] = {
            "stripe_targets": options.stripe_count,
            "stripe_bytes": options.stripe_size,
        }
        if options.client_read_ahead is not None:
            tuning["client_read_ahead"] = {
                "kind": "lustre",
                "step_bytes": 1 << 20,
                "max_bytes": options.client_read_ahead,
                "gap_pages": 8,
            }
        return self.served(site, options.export, tuning)
