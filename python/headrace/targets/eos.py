"""Target `eos`, in virtual time only.

Files on file servers (FST) that a manager (MGM) chooses, reached by XRootD's protocol: copies
(layout `replica`), or stripes with parity (RAIN: `raid6`, `archive`, `qrain`).
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from typing_extensions import override

from headrace.labels import Label
from headrace.site import Site
from headrace.targets import ModelledStorage, TargetOptions
from headrace.targets.exports import Erasure, Export, ServedOptions
from headrace.targets.modelled import ModelledTarget
from headrace.units import Bytes


class EosOptions(ServedOptions):
    """`[target.NAME]` with `kind = "eos"`."""

    export: Export = Field(
        default_factory=lambda: Export.model_validate({}),
        description="what each file server stores on",
    )
    replicas: Annotated[int, Label("{} copy", "{} copies")] = Field(
        2, ge=1, le=16, description="copies of each file"
    )
    erasure: Erasure | None = Field(None, description="data and parity stripes instead of copies")
    stripe_size: Bytes = Field(
        1 << 20, ge=64 << 10, description="with `erasure`: bytes of a stripe (block size)"
    )
    metadata_server: str | None = Field(
        None,
        description="name of a [site.server.NAME] with `drives` whose cores and first drive the "
        "metadata operations use; times without a machine when not given",
    )


class Eos(ModelledTarget):
    """An EOS instance."""

    kind = "eos"
    label: ClassVar[str] = "EOS"
    Options: ClassVar[type[TargetOptions]] = EosOptions
    service_kind = "eos"

    @override
    def metadata_server(self) -> str | None:
        return self.options.metadata_server

    @override
    def stored_per_byte(self) -> float:
        options: EosOptions = self.options
        coded = options.erasure
        return float(options.replicas) if coded is None else coded.stored_per_byte

    @override
    def model(self, site: Site | None) -> ModelledStorage:
        """File servers with one volume each."""
        options: EosOptions = self.options
        tuning: dict[str, object] = (
            {"replicas": options.replicas}
            if options.erasure is None
            else options.erasure.tuning(options.stripe_size)
        )
        return self.served(site, options.export, tuning)
