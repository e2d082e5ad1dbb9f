"""The parts of study files that docs/cluster.md shows are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.study.load import load_study_text

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
TARGET = '[target.shared]\nkind = "path"\npath = "/tmp"\n'
WORKLOAD = '[workload.scan]\nkind = "scan"\ndata = { files = 2, events = 1000 }\n'
RUN = '[run]\non = "slurm"\nnodes = 2\n'


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_a_part_of_a_study_is_valid(block: str, tmp_path: Path) -> None:
    rest = [
        text
        for text in (TARGET, WORKLOAD, RUN)
        if text.partition(".")[0].split("]")[0] not in block
    ]
    text = "\n".join(("headrace = 1", *rest, block))
    load_study_text(text, file=Path("cluster.md"), base=tmp_path)
