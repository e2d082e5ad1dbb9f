"""Values that nothing can be simulated with are refused before anything runs, at their field."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.datasets.layout import layout_of_dataset
from headrace.datasets.spec import DatasetSpec
from headrace.errors import HeadraceError, StudyError
from headrace.library import load_study, sweep
from headrace.site import link_text

DISK = """headrace = 1
[target.d]
kind = "block"
drive = "sata-7200-500gb"
TARGET
[workload.w]
kind = "sequential"
file_size = "1 MiB"
WORKLOAD
[plan]
repeats = { min = 1 }
[run]
slots = 1
RUN
"""
SERVED = """headrace = 1
[target.d]
kind = "nfs"
server = "s"
export = { drive = "sata-7200-500gb" }
TARGET
[workload.w]
kind = "sequential"
file_size = "1 MiB"
[site.node]
drives = { os = "sata-7200-500gb" }
NODE
[site.server.s]
SERVER
[site]
SITE
"""


def refused(folder: Path, text: str, **parts: str) -> str:
    """Return the message with which a study is refused when it is read."""
    for name in ("TARGET", "WORKLOAD", "RUN", "NODE", "SERVER", "SITE"):
        text = text.replace(f"\n{name}\n", f"\n{parts.get(name, '')}\n")
    file = folder / "study.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(StudyError) as caught:
        load_study(file)
    return str(caught.value).replace(f"{folder}/", "")


def unsimulated(folder: Path, text: str) -> str:
    """Return the problem for which a study that can be read is not simulated."""
    file = folder / "study.toml"
    file.write_text(text, encoding="utf-8")
    found = load_study(file).check("simulate")
    assert len(found) == 1
    return str(found[0].of_study).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ('"0 x 1 GbE"', '"0" is not a number of ports; allowed: 1 to 1024 (given: "0 x 1 GbE")'),
        ('"-2 x 1 GbE"', '"-2" is not a number of ports; allowed: 1 to 1024 (given: "-2 x 1 GbE")'),
        ('"1025 x 1 GbE"', '"1025" is not a number of ports'),
        ('"two x 1 GbE"', '"two" is not a number of ports'),
        ('"0 Mb/s"', 'too slow a link; at least 1 kB/s (given: "0 Mb/s")'),
        ('"-5 GB"', 'there is no link of this name; did you mean "25-gbe"? (given: "-5 GB")'),
        ('"7 parsecs"', 'there is no link of this name (given: "7 parsecs"); allowed: 1-gbe, '),
        ("{ rate = 1e-9 }", "is too small (given: 1e-09); allowed: at least 1"),
    ],
)
def test_a_link_that_cannot_be_is_refused_at_its_line(tmp_path: Path, link: str, said: str) -> None:
    at_node = refused(tmp_path, SERVED, NODE=f"link = {link}")
    assert at_node.startswith("study.toml:12: site.node.link")
    assert said in at_node
    at_server = refused(tmp_path, SERVED, SERVER=f"link = {link}")
    assert at_server.startswith("study.toml:14: site.server.s.link")
    assert said in at_server


def test_links_as_text() -> None:
    assert link_text("1 GbE") == (1, "1-gbe", 125e6)
    assert link_text("4 x 10-gbe") == (4, "10-gbe", None)
    assert link_text("200 Mb/s") == (1, "200-mb/s", 25e6)
    assert link_text("2 x 1 Gb/s") == (2, "1-gb/s", 125e6)


def test_a_switch_that_the_catalog_lacks_is_refused_at_its_line(tmp_path: Path) -> None:
    said = "there is no switch of this name (given: "
    assert f"study.toml:16: site.switch: {said}" in refused(tmp_path, SERVED, SITE='switch = "x"')
    inner = refused(tmp_path, SERVED, SITE='switch = { switch = "x" }')
    assert f"study.toml:16: site.switch.switch: {said}" in inner


def test_true_is_no_number_of_servers(tmp_path: Path) -> None:
    said = refused(tmp_path, SERVED, SERVER="count = true")
    assert said == "study.toml:14: site.server.s.count: must be a whole number (given: true)"


@pytest.mark.parametrize("field", ["rsize", "wsize"])
def test_requests_of_no_bytes_are_refused(tmp_path: Path, field: str) -> None:
    said = refused(tmp_path, SERVED, TARGET=f"{field} = 0")
    assert (
        said == f"study.toml:6: target.d.{field}: is too small (given: 0); allowed: more than 0 B"
    )


def test_a_load_of_no_time_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path, DISK, RUN="duration = 0")
    assert said == "study.toml:14: run.duration: is too small (given: 0); allowed: more than 0 s"


@pytest.mark.parametrize(
    ("chunk", "said"),
    [
        ("5000", "does not fit (given: 5000); allowed: multiples of 512 B"),
        ('"2 GiB"', 'is too large (given: "2 GiB"); allowed: at most 1 GiB'),
    ],
)
def test_a_chunk_that_no_model_takes_is_refused(tmp_path: Path, chunk: str, said: str) -> None:
    raid = f"raid = {{ level = 0, drives = 2, chunk = {chunk} }}"
    assert refused(tmp_path, DISK, TARGET=raid) == f"study.toml:5: target.d.raid.chunk: {said}"
    drives = f'os2 = {{ drive = "sata-7200-500gb", count = 2, chunk = {chunk} }}'
    text = SERVED.replace("drives = { os =", f"drives = {{ {drives}, os =")
    assert f"site.node.drives.os2.chunk: {said[:12]}" in refused(tmp_path, text)


def test_more_files_than_events_are_refused(tmp_path: Path) -> None:
    text = DISK.replace('"sequential"\nfile_size = "1 MiB"', '"scan"')
    said = refused(tmp_path, text, WORKLOAD="data = { events = 5, files = 6 }")
    assert said == (
        "study.toml:8: workload.w.data: files (6) is more than events (5): each file has one at "
        "least"
    )


def test_a_file_too_large_to_be_laid_out_is_refused_at_once() -> None:
    with pytest.raises(HeadraceError, match=r"1,000,000,000,000 events in a file have .* baskets"):
        layout_of_dataset(DatasetSpec.model_validate({"events": 10**12, "files": 1}))


def test_faults_of_drives_that_are_not_there_are_refused_at_the_fault(tmp_path: Path) -> None:
    plain = "\n".join(line for line in DISK.splitlines() if not line.isupper())
    fault = '\n[[fault]]\nwhat = "degraded"\n'
    said = unsimulated(tmp_path, plain + fault)
    assert said.startswith("study.toml:13: fault[0].what: it cannot be simulated: fault degraded: ")
    assert "the target has no RAID that can lose a drive" in said
    assert said.endswith("allowed: raid = { level = 1, drives = 2 }, or 5, 6, 10")
    mirror = plain.replace("[workload.w]", "raid = { level = 1, drives = 2 }\n[workload.w]")
    said = unsimulated(tmp_path, mirror + fault + "drive = 9\n")
    assert "fault degraded: drive = 9; the target's drives are 0 to 1" in said
    load_study(tmp_path / "study.toml")  # a redundant RAID and its drive are allowed
    (tmp_path / "study.toml").write_text(mirror + fault + "drive = 1\n", encoding="utf-8")
    assert load_study(tmp_path / "study.toml").check("simulate") == []


def test_more_samples_than_memory_holds_are_refused(tmp_path: Path) -> None:
    plain = "\n".join(line for line in DISK.splitlines() if not line.isupper())
    said = unsimulated(tmp_path, plain + '\nduration = "365 d"\n')
    assert (
        "makes more than 1,000,000 samples of each drive; allowed: give a longer series_interval"
        in said
    )
    (tmp_path / "study.toml").write_text(
        plain + '\nduration = "365 d"\nseries_interval = "1 h"\n', encoding="utf-8"
    )
    assert load_study(tmp_path / "study.toml").check("simulate") == []


def test_the_core_refuses_in_the_words_of_a_study(tmp_path: Path) -> None:
    text = "\n".join(line for line in SERVED.splitlines() if not line.isupper())
    text = text.replace("[workload.w]", 'tuning = { client_request_ns = "5 ms" }\n[workload.w]')
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    with pytest.raises(StudyError) as caught:
        load_study(tmp_path / "study.toml").check("simulate")
    assert str(caught.value).endswith(
        'client_request_ns (given: string "5 ms"); allowed: a whole number, 0 or more'
    )


@pytest.mark.parametrize(
    ("workload", "field"),
    [
        ('kind = "sequential"\nfile_size = "8000 PB"', "file_size"),
        ('kind = "random"\nfile_size = "16 TiB"', "file_size"),
        (
            'kind = "replay"\nprofile = "cms-tau-analysis-sample"\n'
            'data = { files = 1, file_size = "16 TiB" }',
            "data.file_size",
        ),
        ('kind = "scan"\ndata = { events = 1000, basket_size = "8000 PB" }', "data.basket_size"),
    ],
)
def test_files_and_baskets_that_nothing_can_hold_are_refused_at_their_line(
    tmp_path: Path, workload: str, field: str
) -> None:
    # 16 TiB are 2^32 pages: such a file was simulated as one of 0 bytes, on a drive of 500 GB.
    text = DISK.replace('kind = "sequential"\nfile_size = "1 MiB"', workload)
    line = 1 + next(i for i, each in enumerate(text.splitlines()) if field.split(".")[-1] in each)
    said = refused(tmp_path, text)
    assert said.startswith(f"study.toml:{line}: workload.w.{field}: is too large"), said


def test_a_profile_with_a_file_that_nothing_can_hold_is_not_simulated(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(
        'memory_bytes = 1_000_000\n[[files]]\nname = "sparse"\nbytes = 17_592_186_044_416\n'
        '[[steps]]\ndo = "open"\nfile = "sparse"\n[[steps]]\ndo = "read"\nfile = "sparse"\n'
        "length_bytes = 4096\n",
        encoding="utf-8",
    )
    text = "\n".join(line for line in DISK.splitlines() if not line.isupper())
    replay = 'kind = "replay"\nprofile = "job.toml"'
    said = unsimulated(tmp_path, text.replace('kind = "sequential"\nfile_size = "1 MiB"', replay))
    assert "its files 'sparse' have 16 TiB; allowed: files of 16.0 TB at most" in said


SMALL = """kind = "ssd"
capacity_bytes = 16_000_000
link_bytes_per_s = 285e6
queue_depth = 32
spare_ratio = 0.28
write_buffer_bytes = 1_048_576
controller = { read_overhead_us = 15.0, write_overhead_us = 15.0, read_iops_max = 50_000.0, \
write_iops_max = 50_000.0 }
flash = { channels = 1, dies_per_channel = 1, planes = 2, page_bytes = 4096, \
pages_per_block = 16, read_us = 50.0, program_us = 480.0, erase_us = 3000.0, \
channel_bytes_per_s = 80e6 }
mapping = { ftl = "page", unit_bytes = 4096 }
"""


@pytest.mark.parametrize("of_server", [False, True])
def test_a_drive_that_is_too_small_for_the_filesystem_is_named(
    tmp_path: Path, *, of_server: bool
) -> None:
    """Without a size: the simulator had no group of blocks for the first file."""
    (tmp_path / "small.toml").write_text(SMALL, encoding="utf-8")
    text = "\n".join(
        line for line in (SERVED if of_server else DISK).splitlines() if not line.isupper()
    )
    if of_server:
        text = text.replace('export = { drive = "sata-7200-500gb" }', "")
        text = text.replace("[site.server.s]", '[site.server.s]\ndrives = { d = "small.toml" }')
        said = "small.toml holds 16.0 MB, which is too small for ext4"
    else:
        text = text.replace("sata-7200-500gb", "small.toml")
        said = "small.toml holds 16.0 MB, which is too small for ext4; allowed: 33 MiB at least"
    assert said in unsimulated(tmp_path, text)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("32 MiB", "size = 32 MiB is too small for ext4; allowed: 33 MiB at least"),
        ("600 GB", "size = 600 GB, and sata-7200-500gb holds 500 GB; allowed: a smaller size"),
    ],
)
def test_a_filesystem_that_the_drive_cannot_have_is_not_simulated(
    tmp_path: Path, size: str, said: str
) -> None:
    text = "\n".join(line for line in DISK.splitlines() if not line.isupper())
    text = text.replace("[workload.w]", f'size = "{size}"\n[workload.w]')
    found = unsimulated(tmp_path, text)
    assert f"target d: {said}" in found
    good = tmp_path / "good.toml"
    good.write_text(text.replace(size, "36 MiB"), encoding="utf-8")
    (swept,) = sweep([good.read_text(encoding="utf-8")])
    assert [(each.problem, each.metrics != {}) for each in swept.trials] == [("", True)]


def test_a_trial_without_room_for_its_files_says_so_in_words(tmp_path: Path) -> None:
    text = "\n".join(line for line in DISK.splitlines() if not line.isupper())
    text = text.replace('"1 MiB"', '"300 GiB"').replace("slots = 1", "slots = 2")
    (swept,) = sweep([text])
    (trial,) = swept.trials
    assert trial.problem == "target d has no room for 2 files of 322 GB"


@pytest.mark.parametrize(
    ("plan", "factors", "said"),
    [
        ("{ min = 2_000_000 }", "", "study.toml:9: plan.repeats.min: too many trials"),
        (
            "{ min = 3, max = 2_000_000, interval = 0.01 }",
            "",
            "study.toml:9: plan.repeats.max: too many trials",
        ),
        (
            "{ min = 1000 }",
            f"[factors]\nslots = {list(range(1, 1101))}",
            "study.toml:11: factors: too many trials (given: 1100 cells x 1000 repeats)",
        ),
    ],
)
def test_too_many_trials_are_told_at_the_line_that_makes_them(
    tmp_path: Path, plan: str, factors: str, said: str
) -> None:
    text = DISK.replace("{ min = 1 }", plan).replace("slots = 1\nRUN", factors).replace("RUN", "")
    text = "\n".join(line for line in text.splitlines() if not line.isupper())
    file = tmp_path / "study.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(StudyError) as caught:
        load_study(file).plan()
    assert str(caught.value).replace(f"{tmp_path}/", "").startswith(said)
