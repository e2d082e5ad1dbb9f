"""The typed record: what is written is read back, records of 0.1 are read, the published schema is
that of the code."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.analysis.metrics import trial_metrics
from headrace.analysis.read import read
from headrace.records.trial_record import FaultRecord, decode, encode, json_schema
from synthetic_records import failed_trial

ROOT = Path(__file__).parents[2]
OF_0_1 = ROOT / "tests" / "golden" / "results-0.1"
"""Made by `headrace simulate` of version 0.1, without its report."""
SCHEMA = ROOT / "docs" / "trial-record.schema.json"

TEXTS = st.text(max_size=20)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(
    levels=st.dictionaries(TEXTS, JSON_VALUES, max_size=4), seen=st.dictionaries(TEXTS, JSON_VALUES)
)
def test_what_is_written_is_read_back(levels: dict[str, object], seen: dict[str, object]) -> None:
    fault = FaultRecord(what="stall", name="stall", at_s=1.0, fired=2, seen=seen)
    record = msgspec.structs.replace(failed_trial("0000-a-r0"), levels=levels, faults=(fault,))
    assert decode(encode(record)) == record
    assert encode(decode(encode(record))) == encode(record)


def test_results_of_0_1_are_read() -> None:
    records = read(OF_0_1)
    assert records.warnings == ()
    assert list(records.trials["slots"]) == [1, 2] or list(records.trials["slots"]) == [2, 1]
    assert records.trials["valid"].all()
    metrics = trial_metrics(records.trials)
    assert (metrics["energy_j_per_job"] > 0).all(), (
        "0.1 kept the energy of a simulation among the probes"
    )
    assert {"events_per_s", "efficiency"} <= set(metrics.columns)
    assert set(records.jobs["exit"]) == {"ok"}


def test_numbers_that_json_does_not_have_are_read_from_records_of_0_1() -> None:
    path = next(OF_0_1.glob("trials/*/trial.json"))
    values = json.loads(path.read_text())
    values["results"] = {"peak_gev": float("nan")}
    assert decode(json.dumps(values).encode()).results["peak_gev"] != 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 9}, "record schema 9, this Headrace reads 1 to 2"),
        ({"status": "perhaps"}, "status"),
        ({"validity": {"valid": "yes"}}, "validity.valid"),
        ({"faults": [{"name": "x"}]}, r"lacks 'faults\[0\]\.what'"),
    ],
)
def test_what_is_no_record_is_named(change: dict[str, object], said: str) -> None:
    values = json.loads(encode(failed_trial("0000-a-r0")))
    with pytest.raises(ValueError, match=said):
        decode(json.dumps({**values, **change}).encode())
    with pytest.raises(ValueError, match="no JSON object"):
        decode(b"[1]")


def test_the_published_schema_is_that_of_the_code() -> None:
    """HEADRACE_GOLDEN=write writes it anew."""
    text = json.dumps(json_schema(), indent=1, sort_keys=True) + "\n"
    if os.environ.get("HEADRACE_GOLDEN") == "write":
        SCHEMA.write_text(text)
    assert SCHEMA.read_text() == text
    jsonschema.validate(json.loads(encode(failed_trial("0000-a-r0"))), json.loads(text))
