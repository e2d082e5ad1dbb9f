"""The user's own ROOT files on every kind of target that this machine can have.

Copied there, read there, left alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from own_root_files import done_trials, identities, write_user_file

pytestmark = pytest.mark.usefixtures("needs_root")

STUDY = """
headrace = 1
title = "own files"
[target.storage]
{target}
[workload.look]
kind = "scan"
data = {{ files = ["mine/*.root"] }}
variable = "Hit_pt"
columns = "*"
verify = true
[workload.write]
kind = "skim"
data = {{ files = ["mine/*.root"] }}
fraction = 1.0
keep = 0.5
verify = true
[plan]
repeats = {{ min = 1 }}
[run]
slots = 2
shortest = 0
foreign_load = "warning"
timeout = "2 min"
"""

TARGETS = {
    "block": 'kind = "block"\nimage = "disk.img"\nsize = "64 MiB"',
    "raid": 'kind = "raid"\nlevel = 1\nsize = "128 MiB"',
    "emulated": 'kind = "block"\ndrive = "seagate-st3750640ns"\nsize = "64 MiB"',
    "nfs": 'kind = "nfs"\nexport = { image = "disk.img", size = "64 MiB" }',
    "glusterfs": 'kind = "glusterfs"\nbricks = { image = "disk.img", size = "64 MiB" }',
    "xrootd": 'kind = "xrootd"\nbricks = { image = "disk.img", size = "64 MiB" }',
    "s3": 'kind = "s3"\nexport = { image = "disk.img", size = "64 MiB" }',
    "hdfs": 'kind = "hdfs"\nservers = 1\nreplicas = 1\nblock_size = "1 MiB"\n'
    'bricks = { image = "disk.img", size = "64 MiB" }',
}


@pytest.mark.parametrize("kind", TARGETS)
def test_own_files_are_read_on_a_target(kind: str, tmp_path: Path, journal_place: Path) -> None:
    files = [
        write_user_file(tmp_path / "mine" / "a b #1.root", 600, seed=1),
        write_user_file(tmp_path / "mine" / "c.root", 300, seed=2),
    ]
    before = identities(files)
    target = TARGETS[kind]
    if kind == "raid":
        target += f'\nfolder = "{tmp_path}"'
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(target=target))
    loaded = headrace.load_study(study)
    assert [problem.what for problem in loaded.check() if problem.fatal] == []
    made = loaded.run(tmp_path / "results", cache_dir=tmp_path / "cache")
    found = done_trials(made)
    assert sum(found["look"]["results"]["histogram"]["counts"]) == 3 * 900
    assert found["write"]["results"]["events_kept"] == 450
    assert identities(files) == before
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["a b #1.root", "c.root"]
