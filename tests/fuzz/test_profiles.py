"""Damaged recordings of other tools and damaged profiles.

A profile, or an error that names the file.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import StudyError
from headrace.profiles.exporting import FORMATS, export, left_out
from headrace.profiles.importing import READERS, read
from headrace.profiles.scenario import scenario_steps
from headrace.profiles.steps import Recording, load, save, steps_path
from headrace.profiles.summary import summarise
from mutations import damaged_bytes, damaged_text, fuzz, refused_by_name

IMPORTS = Path(__file__).parents[1] / "golden" / "imports"
TEXTS = [file.read_text() for file in sorted(IMPORTS.iterdir())]
SIZES = """\
100 1700000000.000001 openat(AT_FDCWD</data>, "new.db", O_RDWR|O_CREAT|O_TRUNC, 0600) = 3</data/new.db> <0.000010>
100 1700000000.000101 ftruncate(3</data/new.db>, 65536) = 0 <0.000010>
100 1700000000.000201 fallocate(3</data/new.db>, FALLOC_FL_KEEP_SIZE, 65536, 4096) = 0 <0.000010>
100 1700000000.000301 pwrite64(3</data/new.db>, "x"..., 4096, 8192) = 4096 <0.000010>
100 1700000000.000401 close(3</data/new.db>) = 0 <0.000010>
"""  # noqa: E501
NUMBERS = [
    "-1",
    "0",
    str(2**31),
    str(2**61),
    str(2**63),
    "9" * 30,
    "9" * 5000,
    "1e308",
    "nan",
    "0x" + "f" * 30,
]


def use(recording: Recording, place: Path) -> None:
    """All that is done with a recording, but simulating and replaying it."""
    summarise(recording)
    names = [f"f{number}" for number in range(len(recording.files))]
    scenario_steps(recording, names, sizes=True)
    for format in FORMATS:
        export(recording, place / f"out.{format}", format)
        left_out(recording, format)


@fuzz(250)
@given(
    text=damaged_text([*TEXTS, SIZES], [*NUMBERS, '"', ",", "<", ")", "\\x00", "= 0", ";"]),
    format=st.sampled_from([None, None, *READERS]),
)
def test_a_damaged_recording_is_imported_or_refused_by_name(
    text: str, format: str | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.getbasetemp() / "imports"
    place.mkdir(exist_ok=True)
    file, profile = place / "a trace", place / "job.toml"
    file.write_text(text)

    def imported() -> None:
        save(read(file, "job", format), profile)
        use(load(str(profile)), place)

    refused_by_name(imported, file, place / "out.fio")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of every kind of step."""
    place = tmp_path_factory.mktemp("recorded")
    trace = place / "trace"
    trace.write_text((IMPORTS / "strace-y.txt").read_text() + SIZES)
    save(read(trace, "job"), place / "job.toml")
    return place / "job.toml"


def test_a_damaged_letter_of_a_column_is_refused_by_name(recorded: Path, tmp_path: Path) -> None:
    profile = tmp_path / recorded.name
    shutil.copy(recorded, profile)
    damaged = steps_path(recorded).read_bytes().replace(b"offset", b"\xe4ffset")
    steps_path(profile).write_bytes(damaged)
    with pytest.raises(StudyError, match=r"steps_file.*cannot be read"):
        load(str(profile))


COLUMN_VALUES: list[Any] = [-1, 2**31 - 1, 2**62, 2**63 - 1, None, "x", 1.5]


@fuzz(150)
@given(data=st.data())
def test_a_damaged_profile_is_loaded_or_refused_by_name(
    data: st.DataObject, recorded: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.getbasetemp() / "profiles"
    place.mkdir(exist_ok=True)
    profile = place / f"job-{data.draw(st.integers(0, 10**12))}.toml"
    steps = steps_path(profile)
    shutil.copy(steps_path(recorded), steps)
    text = recorded.read_text().replace(steps_path(recorded).name, steps.name)
    what = data.draw(st.sampled_from(["text", "bytes", "column"]))
    if what == "text":
        text = data.draw(damaged_text([text]))
    elif what == "bytes":
        steps.write_bytes(data.draw(damaged_bytes([steps.read_bytes()])))
    else:
        table = pq.read_table(steps)
        name = data.draw(st.sampled_from(table.column_names))
        values = table[name].to_pylist()
        value = data.draw(st.sampled_from(COLUMN_VALUES))
        alone = isinstance(value, (str, float)) or name in ("direct", "synchronous")
        values = [value] * len(values) if alone else [*values[:-1], value]
        pq.write_table(
            table.set_column(table.column_names.index(name), name, pa.array(values)), steps
        )
    profile.write_text(text)
    try:
        refused_by_name(lambda: use(load(str(profile)), place), place)
    finally:
        profile.unlink()
        steps.unlink()


def test_sizes_and_space_in_a_trace_of_strace_are_steps(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text(SIZES)
    recording = read(trace, "job")
    steps = recording.steps
    rows = np.column_stack([steps.op, steps.offset, steps.length]).tolist()
    assert rows[1:3] == [[13, 65536, 0], [15, 65536, 4096]]
    assert "1 truncate, 1 reserve" in left_out(recording, "fio")
    assert left_out(recording, "csv") == ""
