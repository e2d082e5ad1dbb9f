"""The user's own ROOT files on every kind of target that this machine can have.

Copied there, read there, left alone.
"""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pytest

import headrace
from headrace.system import page_cache
from own_root_files import all_done, done_trials, identities, write_user_file

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


def reasons(results: Path) -> list[list[str]]:
    """Codes of the reasons why each trial is invalid."""
    return [[each["code"] for each in trial["validity"]["reasons"]] for trial in all_done(results)]


READ_IN_TURN = """
headrace = 1
title = "two workloads, each with files of its own"
[target.storage]
{target}
[workload.one]
kind = "scan"
data = {{ files = ["mine/*.root"] }}
variable = "Hit_pt"
columns = "*"
[workload.two]
kind = "scan"
data = {{ files = ["others/*.root"] }}
variable = "Hit_pt"
columns = "*"
[factors]
cache = ["cold", "warm"]
[plan]
seed = 7
repeats = {{ min = 3 }}
[run]
slots = 2
shortest = 0
foreign_load = "warning"
timeout = "2 min"
"""


@pytest.mark.parametrize("kind", ["glusterfs", "xrootd", "s3", "hdfs"])
def test_warm_files_are_in_the_memory_of_servers(
    kind: str, tmp_path: Path, journal_place: Path
) -> None:
    """Also those that jobs reach by URL. A cold trial of the other workload leaves none there."""
    # Larger than what GlusterFS's client keeps of a file that is opened.
    sizes = {
        folder: sum(
            write_user_file(tmp_path / folder / f"{name}.root", 2_500, seed=seed).stat().st_size
            for seed, name in enumerate("ab")
        )
        for folder in ("mine", "others")
    }
    study = tmp_path / "study.toml"
    study.write_text(READ_IN_TURN.format(target=TARGETS[kind]))
    loaded = headrace.load_study(study)
    made = loaded.run(tmp_path / "results", cache_dir=tmp_path / "cache")
    for _ in range(5):
        # Other tests drop the page cache of the machine for cold trials of their own.
        if not any("cache-dropped" in codes for codes in reasons(made)):
            break
        headrace.resume(made, retry_invalid=True)
    trials = sorted(all_done(made), key=lambda trial: trial["started_utc"])
    files = {"one": "mine", "two": "others"}
    read = [
        (each["workload"]["name"], each["levels"]["cache"],
         each["device"]["bytes_read"] / sizes[files[each["workload"]["name"]]])
        for each in trials
    ]  # fmt: skip
    turns = [(last[1], cache) for last, (name, cache, _) in pairwise(read) if name != last[0]]
    assert ("cold", "warm") in turns, "no warm trial after a cold one of the other workload"
    assert all(share < 0.1 for _, cache, share in read if cache == "warm"), read
    assert all(share > 0.9 for _, cache, share in read if cache == "cold"), read


@pytest.mark.machine  # it empties the memory that others use
def test_a_warm_trial_whose_memory_another_program_empties_is_invalid(
    tmp_path: Path, journal_place: Path
) -> None:
    """It reads from drives what its record calls warm."""
    write_user_file(tmp_path / "mine" / "a.root", 2_500, seed=1)
    study = tmp_path / "study.toml"
    text = STUDY.format(target=TARGETS["block"]).partition("[workload.write]")[0]
    study.write_text(f'{text}[run]\ncache = "warm"\nshortest = 0\nforeign_load = "warning"\n')
    ended = threading.Event()

    def empty_memory() -> None:
        while not ended.wait(0.005):
            page_cache.drop_all()

    other = threading.Thread(target=empty_memory)
    other.start()
    try:
        made = headrace.load_study(study).run(tmp_path / "results", cache_dir=tmp_path / "cache")
    finally:
        ended.set()
        other.join()
    assert reasons(made) and all(codes == ["cache-dropped"] for codes in reasons(made))
    headrace.resume(made, retry_invalid=True)
    assert all(codes == [] for codes in reasons(made))
