"""The data set that a workload requests: fields of `data = {…}`, all usable as factors."""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticKnownError

from headrace.units import MOST_FILES, Bytes

Shape = Literal["bench", "nano", "aod"]
Format = Literal["ttree", "rntuple"]
Codec = Literal["zlib", "lz4", "zstd", "lzma"]
Order = Literal["ordered", "unordered"]


def file_name(number: int) -> str:
    """Return the name of file `number` of any generated data set."""
    return f"events-{number:04d}.root"


GENERATOR_VERSION = 2
"""Incremented when the same spec yields other bytes than before, so that no cache mixes the two."""


class DatasetSpec(BaseModel):
    """One data set. Equal specs yield equal bytes and share one copy."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    shape: Shape = Field(
        "bench", description="bench: few branches as PROOF Bench; nano: hundreds; aod: thousands"
    )
    events: int = Field(100_000, ge=1, description="events in the whole data set")
    files: int = Field(
        4, ge=1, le=MOST_FILES, description="files that they are spread over, equally"
    )
    format: Format = Field("ttree", description="ROOT TTree or RNTuple")
    codec: Codec = Field("zlib", description="compression algorithm")
    level: int | None = Field(
        None, ge=0, le=9, description="compression level; the codec's usual one when not given"
    )
    order: Order = Field(
        "ordered",
        description="ordered: the baskets of a cluster lie in the order in which they are read; "
        "unordered: scattered",
    )
    cluster_events: int | None = Field(
        None,
        ge=1,
        description="events a cluster; by the shape's default cluster size when not given",
    )
    basket_size: Bytes | None = Field(
        None,
        gt=0,
        le=1 << 30,
        description="uncompressed bytes a basket at most; the shape's default when not given",
    )
    signal_fraction: float = Field(
        0.01, ge=0, le=1, description="fraction of events that are Higgs to four leptons"
    )
    seed: int = Field(1, ge=0, description="seed of the events")

    @field_validator("events", "files", mode="before")
    @classmethod
    def _whole_number(cls, given: object) -> object:
        if isinstance(given, bool):  # not a count of 1, which files or events would not fit
            raise PydanticKnownError("int_type")
        return given

    @model_validator(mode="after")
    def _spread_over_files(self) -> DatasetSpec:
        if self.files > self.events:
            raise ValueError(
                f"files ({self.files}) is more than events ({self.events}): each file has one at "
                "least"
            )
        return self

    @property
    def key(self) -> str:
        """A name for exactly these bytes: 16 hexadecimal digits."""
        text = json.dumps(
            {"generator": GENERATOR_VERSION, **self.model_dump(mode="json")}, sort_keys=True
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]
