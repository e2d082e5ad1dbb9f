"""Jobs as Headrace imports them from what other tools wrote."""

from __future__ import annotations

from pathlib import Path

from headrace.profiles.importing import read
from headrace.profiles.steps import Op, Recording


def imported(tmp_path: Path, text: str) -> Recording:
    (tmp_path / "trace").write_text(text)
    return read(tmp_path / "trace", "job")


def moves(job: Recording) -> list[tuple[str, str, int, int]]:
    steps = job.steps
    return [
        (Op(op).name, job.files[file].path, offset, length)
        for op, file, offset, length in zip(
            steps.op.tolist(),
            steps.file.tolist(),
            steps.offset.tolist(),
            steps.length.tolist(),
            strict=True,
        )
        if length
    ]
