"""What readers request to find a tree in a file with folders, and what the model says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

from headrace.workloads import JobInput, kinds

pytestmark = pytest.mark.slow

READERS = ["uproot", "event-loop", "rdataframe"]


def write_folders(path: Path, *others: str) -> Path:
    """A file with a folder of 300 histograms and its tree, and empty trees of these names."""
    handle: Any = uproot.recreate(str(path))
    with handle as file:
        for number in range(300):
            histogram = np.histogram(np.arange(5), bins=3)
            file[f"plots/deep/histogram_of_something_{number:04d}"] = histogram
        file.mktree("plots/found", {"x": "i4"})
        file["plots/found"].extend({"x": np.arange(1000, dtype="i4")})
        for name in others:
            file.mktree(name, {f"column_of_{name}_{each:04d}": "i4" for each in range(200)})
    return path


@pytest.mark.parametrize("others", [(), ("one", "two")])
@pytest.mark.parametrize("reader", READERS)
def test_the_search_for_a_tree_in_folders_is_modelled(
    reader: str, others: tuple[str, ...], tmp_path: Path
) -> None:
    file = write_folders(tmp_path / "folders.root", *others)
    part = kinds()["scan"]
    given = {"data": {"files": [str(file)]}, "reader": reader}
    scan = part("scan", part.Options.model_validate(given))
    scan = part("scan", scan.options_for_jobs())
    job = JobInput((str(file),), None, tmp_path, slot=0, slots=1, seed=0)
    scan.run(job)  # what the interpreter reads the first time is not of the job
    requested = scan.run(job).bytes_asked
    steps = scan.profile(None).steps
    modelled = sum(
        size for step in steps if step["do"] == "sequence" for _, size in step["ranges_bytes"]
    )
    assert requested > 20_000
    assert modelled == pytest.approx(requested, rel=0.05, abs=500)
