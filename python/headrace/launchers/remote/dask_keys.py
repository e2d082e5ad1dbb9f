"""Keys and versions of a Dask cluster: what could keep its nodes from talking to each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.system.cluster_keys import key_state
from headrace.system.key_states import KeyState

if TYPE_CHECKING:
    from distributed import Client

_COMPARED = ("python", "distributed", "dask", "msgpack", "cloudpickle")
"""What Dask itself warns about when versions differ."""


def keys_of(role: str) -> list[KeyState]:
    """Return the state of the files that Dask's configuration names for a role (`client` …).

    The key of an authority that lies beside its certificate is one of them.
    """
    from distributed.security import Security

    security: Any = Security()
    names = (
        security.tls_ca_file,
        getattr(security, f"tls_{role}_cert"),
        getattr(security, f"tls_{role}_key"),
    )
    files = [Path(str(name)) for name in names if name]
    if security.tls_ca_file:
        signing = Path(str(security.tls_ca_file)).with_name("ca-key.pem")
        files += [signing] if signing.exists() else []
    return [key_state(file) for file in files]


def unequal_versions(client: Client) -> list[tuple[str, str, str, str]]:
    """Return (scheduler or worker, package, its version there, version here) of what differs."""
    found: Any = client.get_versions()
    here = _packages(found["client"])
    there = {"the scheduler": found["scheduler"]}
    there |= {f"worker {address}": each for address, each in found["workers"].items()}
    return [
        (where, name, _packages(each).get(name) or "none", here.get(name) or "none")
        for where, each in there.items()
        for name in _COMPARED
        if _packages(each).get(name) != here.get(name)
    ]


def _packages(found: Mapping[str, Any] | None) -> dict[str, str | None]:
    if found is None:
        return {}
    versions = {**found["packages"], "python": found["host"].get("python") or ""}
    # "3.11.2.final.0": the release alone
    versions["python"] = ".".join(versions["python"].split(".")[:3])
    return versions
