"""Read values and links of Redfish resources, which need not have what the schema allows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

ACCURACY = (0.05, "assumption: 5 %; BMCs and power supplies state 1 to 5 %")


def value_at(resource: Any, keys: Iterable[str | int]) -> Any:
    """Return the value at a place of a resource; None where it has none."""
    for key in keys:
        try:
            resource = resource[key]
        except (KeyError, IndexError, TypeError):
            return None
    return resource


def link_to(resource: Any, name: str) -> str | None:
    """Return the URL of a linked resource; None where there is no link."""
    url = value_at(resource, (name, "@odata.id"))
    return url if isinstance(url, str) else None


def members_of(collection: Any) -> list[str]:
    """Return the URLs of a collection's members."""
    members = value_at(collection, ("Members",))
    links = [value_at(each, ("@odata.id",)) for each in members or []]
    return [each for each in links if isinstance(each, str)]


def accuracy_of(sensor: Any) -> tuple[float, str]:
    """Return the accuracy that a sensor states, in percent of its reading."""
    stated = value_at(sensor, ("Accuracy",))
    if isinstance(stated, (int, float)) and 0 < stated < 100:
        return stated / 100, "Accuracy of the Redfish sensor"
    return ACCURACY
