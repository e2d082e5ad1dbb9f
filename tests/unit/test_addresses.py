"""Addresses of servers that somebody else runs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from headrace.targets.exports import ServedOptions, with_port


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("se.example.org", "se.example.org:1094"),
        ("se.example.org:2811", "se.example.org:2811"),
        ("[::1]", "[::1]:1094"),
        ("[::1]:2811", "[::1]:2811"),
        ("fe80::2", "[fe80::2]:1094"),
    ],
)
def test_the_port_of_an_address(given: str, wanted: str) -> None:
    assert with_port(given, 1094) == wanted


@pytest.mark.parametrize("given", ["root://se.example.org", "se.example.org/", "one two", ""])
def test_a_url_is_no_address(given: str) -> None:
    """It was taken for one: jobs were given root://root://se.example.org/…"""
    with pytest.raises(ValidationError, match="address"):
        ServedOptions.model_validate({"address": given})
    ServedOptions.model_validate({"address": "se.example.org:1094"})
