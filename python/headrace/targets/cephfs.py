"""Target `cephfs`, in virtual time only.

Files in objects on daemons (OSDs) that a hash chooses, with copies or with erasure coding; a
metadata server; clients with a page cache. A mounted one is measured with kind = "path".
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


class CephfsOptions(ServedOptions):
    """`[target.NAME]` with `kind = "cephfs"`."""

    export: Export = Field(
        default_factory=lambda: Export.model_validate({}), description="what each daemon stores on"
    )
    replicas: Annotated[int, Label("{} copy", "{} copies")] = Field(
        3, ge=1, le=16, description="copies of each object"
    )
    erasure: Erasure | None = Field(None, description="data and parity objects instead of copies")
    object_size: Bytes = Field(4 << 20, ge=1 << 20, description="bytes of an object")
    write_window: Bytes = Field(
        16 << 20, ge=1 << 20, description="with `erasure`: bytes of a file on their way"
    )
    metadata_server: str | None = Field(
        None,
        description="name of a [site.server.NAME] with `drives` whose cores and first drive the "
        "metadata operations use; times without a machine when not given",
    )


class Cephfs(ModelledTarget):
    """A CephFS filesystem."""

    kind = "cephfs"
    label: ClassVar[str] = "CephFS"
    Options: ClassVar[type[TargetOptions]] = CephfsOptions
    service_kind = "cephfs"

    @override
    def metadata_server(self) -> str | None:
        return self.options.metadata_server

    @override
    def stored_per_byte(self) -> float:
        options: CephfsOptions = self.options
        coded = options.erasure
        return float(options.replicas) if coded is None else coded.stored_per_byte

    @override
    def model(self, site: Site | None) -> ModelledStorage:
        """Daemons with one drive each."""
        options: CephfsOptions = self.options
        if options.erasure is None:
            tuning: dict[str, object] = {
                "replicas": options.replicas,
                "block_bytes": options.object_size,
            }
        else:
            # An object is cut into as many pieces as there are data objects.
            unit = max(4096, options.object_size // options.erasure.data // 4096 * 4096)
            tuning = {
                **options.erasure.tuning(unit),
                "write_back": False,
                "write_behind": True,
                "write_window_bytes": options.write_window,
            }
        return self.served(site, options.export, tuning)
