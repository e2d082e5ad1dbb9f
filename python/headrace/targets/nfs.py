"""Target `nfs`: an NFS server, in virtual time. A filer with a hardware cache (BlueArc) is an entry of the catalog's servers."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import override

from headrace.targets import ModelledStorage, TargetOptions
from headrace.targets.modelled import Export, ModelledTarget, ServedOptions
from headrace.units import Bytes


class NfsOptions(ServedOptions):
    """`[target.NAME]` with `kind = "nfs"`."""

    export: Export = Field(
        default_factory=lambda: Export.model_validate({}), description="what the server stores on"
    )
    rsize: Bytes | None = Field(None, description="largest read request")
    wsize: Bytes | None = Field(None, description="largest write request")
    threads: int | None = Field(None, ge=1, description="threads of the server (nfsd)")
    client_read_ahead: Bytes | None = Field(None, description="read-ahead of the client")


class Nfs(ModelledTarget):
    """One NFS server."""

    kind = "nfs"
    Options: ClassVar[type[TargetOptions]] = NfsOptions
    service_kind = "nfs"

    @override
    def model(self, site: Any) -> ModelledStorage:
        """One server, all files on it."""
        options: NfsOptions = self.options
        tuning: dict[str, Any] = {}
        if options.rsize is not None:
            tuning["read_request_bytes"] = options.rsize
        if options.wsize is not None:
            tuning["write_request_bytes"] = options.wsize
        if options.threads is not None:
            tuning["server_threads"] = options.threads
        if options.client_read_ahead is not None:
            tuning["client_read_ahead"] = {"kind": "kernel", "bytes": options.client_read_ahead}
        return self.served(site, options.export, tuning)
