"""Study files good and bad, through the loader that every command uses."""

import os
import pwd
from pathlib import Path

import jsonschema
import pytest

from headrace.cli.validate import validate
from headrace.document import parse_document
from headrace.errors import StudyError
from headrace.library import load_study
from headrace.plan.order import make_plan
from headrace.study import Study, load_study_text
from headrace.study.first import first_study
from headrace.study.level_words import option_of
from headrace.study.resolve import applies, hard_to_change, resolve
from headrace.study.schema import study_schema

GOOD = """
headrace = 1
title = "a study"
[target.disk]
kind = "path"
path = "somewhere"
[target.image]
kind = "block"
image = "disk.img"
size = "1 GB"
filesystem = "ext4"
[workload.scan]
kind = "scan"
data = { events = 1000, files = 2 }
[factors]
target = ["disk", "image"]
slots = [1, 2]
filesystem = ["ext4", "xfs"]
read_ahead = ["4 KiB", "64KB", 65536]
codec = ["zlib", "zstd"]
"""


def load(text: str) -> Study:
    return load_study_text(text, file=Path("study.toml"), base=Path("/base"))


def problems(text: str) -> list[str]:
    with pytest.raises(StudyError) as caught:
        load(text)
    return [str(problem) for problem in caught.value.problems]


def test_a_price_with_a_capacity_as_in_0_1_is_read() -> None:
    study = load(GOOD + "[report.price.disk]\nprice = 50\ncapacity = '1 TB'\n")
    assert study.report_options.price["disk"].price == 50


@pytest.mark.parametrize("kind", ['kind = "blck"', 'kind = ""', ""])
def test_a_target_of_a_wrong_kind_is_not_said_to_be_missing(kind: str) -> None:
    found = problems(GOOD.replace('kind = "block"', kind))
    assert any("target.image.kind" in text for text in found)
    assert not any("no such target" in text for text in found), found


def test_a_factor_finds_its_field_wherever_it_lies() -> None:
    study = load(GOOD)
    assert applies(study, "codec", "disk", "scan")
    assert applies(study, "filesystem", "image", "scan")
    assert not applies(study, "filesystem", "disk", "scan")
    assert hard_to_change(study, "filesystem", "image")
    assert not hard_to_change(study, "read_ahead", "image")
    cell = {"slots": 2, "filesystem": "xfs", "read_ahead": "64KB", "codec": "zstd"}
    resolved = resolve(study, "image", "scan", cell)
    assert resolved.run.slots == 2
    assert resolved.target_options.filesystem == "xfs"
    assert resolved.target_options.read_ahead == 64000
    assert resolved.workload_options.data.codec == "zstd"


def test_a_factor_of_a_part_whose_name_has_dots() -> None:
    text = GOOD.replace("[target.image]", '[target."xfs-6.1"]').replace('"image"]', '"xfs-6.1"]')
    text = text.replace("filesystem = [", '"target.xfs-6.1.filesystem" = [')
    study = load(text)
    assert {trial.levels.get("target.xfs-6.1.filesystem") for trial in make_plan(study).trials} == {
        None, "ext4", "xfs",
    }  # fmt: skip
    options = resolve(study, "xfs-6.1", "scan", {"target.xfs-6.1.filesystem": "xfs"})
    assert options.target_options.filesystem == "xfs"
    assert option_of("target.xfs-6.1.filesystem", "block", "scan") == ("target", ("filesystem",))
    (said,) = problems(
        text.replace('"target.xfs-6.1.filesystem" = ["ext4", "xfs"]\n', "").replace(
            'size = "1 GB"', 'size = ["1 GB", "2 GB"]'
        )
    )
    assert 'several levels go in [factors]: target."xfs-6.1".size = […]' in said


def test_relative_paths_are_relative_to_the_study() -> None:
    study = load(GOOD)
    assert str(resolve(study, "disk", "scan", {}).target_options.path) == "/base/somewhere"
    assert str(resolve(study, "image", "scan", {}).target_options.image) == "/base/disk.img"


def test_a_factor_that_means_nothing_to_a_cell_does_not_multiply_it() -> None:
    trials = make_plan(load(GOOD)).trials
    cells = {trial.cell for trial in trials}
    # disk: 2 slots x 3 read-aheads x 2 codecs; image: x 2 filesystems
    assert len(cells) == 12 + 24


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('kind = "path"', 'kind = "pth"', 5, 'did you mean "path"'),
        ('path = "somewhere"', 'paht = "x"', 6, 'did you mean "path"'),
        ('size = "1 GB"', 'size = "1 gigabyte"', 10, "not a unit of size"),
        ("slots = [1, 2]", "slots = [1, 0]", 17, "allowed: at least 1"),
        ("slots = [1, 2]", "slots = []", 17, "at least one level"),
        ("slots = [1, 2]", "slots = [1, 1]", 17, "duplicate level"),
        (
            "read_ahead = [",
            'read_ahead = ["64 KiB", 65536, ',
            19,
            'factors.read_ahead[1]: duplicate level: "64 KiB" (given: 65536)',
        ),
        (
            'kind = "scan"',
            'kind = "scan"\nvariable = "Muon_pT"',
            14,
            'events of shape bench have no column Muon_pT; did you mean "Muon_pt"?',
        ),
        ("slots = [1, 2]", "slotss = [1, 2]", 17, 'did you mean "slots"'),
        ('codec = ["zlib", "zstd"]', 'codec = ["zlib", "zst"]', 20, 'did you mean "zstd"'),
        ('target = ["disk", "image"]', 'target = ["dsk"]', 16, 'did you mean "disk"'),
        ("headrace = 1", "headrace = 2", 2, "version"),
        ("files = 2", "fils = 2", 14, 'did you mean "files"'),
        ('kind = "scan"', "", 12, "is missing"),
        (
            'kind = "path"',
            "kind = {}",
            5,
            "target.disk.kind: must be text (given: {}); allowed: block",
        ),
        ('kind = "path"', "kind = []", 5, "target.disk.kind: must be text"),
        ('kind = "scan"', "kind = [[1]]", 13, "workload.scan.kind: must be text"),
        ('size = "1 GB"', 'size = "1e308 GB"', 10, "too large a size; at most 9000 PB"),
        ('size = "1 GB"', "size = 1e308", 10, "too large a size"),
        ('size = "1 GB"', "size = nan", 10, "must be a finite number"),
        ('size = "1 GB"', f"size = {10**30}", 10, "whole numbers below 2^63"),
        ('size = "1 GB"', 'size = "5 kB/s"', 10, "not a unit of size"),
        (
            'path = "somewhere"',
            'path = "some\\u0000where"',
            6,
            "target.disk.path: holds the character NUL",
        ),
        ('path = "somewhere"', 'path = "~nosuchuser/x"', 6, "home directory"),
        ("[factors]", "[[fault]]\nwhat = {}\n[factors]", 16, "fault[0].what: must be text"),
        ("[factors]", "fault = 3\n[factors]", 15, "unknown field"),
        ('target = ["disk", "image"]', "target = [[]]", 16, "factors.target[0]: must be text"),
        ("slots = [1, 2]", "slots = [1979-05-27]", 17, "dates and times are not used here"),
        ("slots = [1, 2]", 'slots = [{ a = "\\u0000" }]', 17, "NUL"),
        ('kind = "scan"', 'kind = "replay"\nprofile = "mdtst"', 14, 'did you mean "mdtest"'),
        ('kind = "scan"', 'kind = "replay"\nprofile = "none.toml"', 14, "cannot be read"),
        ("files = 2", 'files = ["x.root"]', 14, "events: unknown field here: it does not go with"),
        ("events = 1000", "events = true", 14, "must be a whole number (given: true)"),
        ("slots = [1, 2]", "slots = [true, 2]", 17, "must be a whole number (given: true)"),
        ("[factors]", "[run]\ntimeout = true\n[factors]", 16, "timeout: "),
        (
            'size = "1 GB"',
            'size = "1 GB"\nqueue_depth = 1_000_000_000_000',
            11,
            "target.image.queue_depth: is too large (given: 1000000000000); allowed: at most 65536",
        ),
        ("[factors]", '[run]\nmemory_limit = "0 GB"\n[factors]', 16, "at least 2 MiB"),
        ("[factors]", '[target.""]\nkind = "path"\n[factors]', 15, "its name is empty"),
        ("[workload.scan]", '[workload."a\\u001b"]', 12, "that cannot be printed"),
        ("[factors]", "[workload.scan]\n[factors]", 15, "Cannot declare [workload.scan] twice"),
        ('kind = "path"', "kind = { a = [1, true] }", 5, "(given: { a = [1, true] })"),
        ('path = "somewhere"', 'path = ""', 6, 'path: must not be empty (given: "")'),
        (
            'image = "disk.img"\nsize = "1 GB"',
            'device = " "',
            9,
            "target.image.device: must not be empty",
        ),
        (
            'filesystem = "ext4"',
            'filesystem = "ext4"\nscheduler = ""',
            12,
            'target.image.scheduler: must not be empty (given: "")',
        ),
        ('size = "1 GB"', 'size = ""', 10, '(given: "")'),
        (
            "slots = [1, 2]",
            'scheduler = ["none", ""]',
            17,
            'factors.scheduler[1]: must not be empty (given: "")',
        ),
        (
            "[factors]",
            "[report]\nprice.disk = { price = 1e308 }\n[factors]",
            16,
            "report.price.disk.price: is too large (given: 1e+308)",
        ),
        (
            "[factors]",
            '[offers.target.dsk]\nusable = "1 TB"\n[factors]',
            15,
            'did you mean "disk"?',
        ),
        (
            "[factors]",
            '[report]\nprice.disk = { price = 5, currency = "EURO" }\n[factors]',
            16,
            "ISO 4217",
        ),
    ],
)
def test_each_mistake_is_named_with_its_line(old: str, new: str, line: int, words: str) -> None:
    found = problems(GOOD.replace(old, new))
    assert any(text.startswith(f"study.toml:{line}:") and words in text for text in found), found


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("[factors]\nslots = [1, 2]", "[run]\nslots = [1, 2]\n[factors]", "slots"),
        ("[factors]\n", '[run]\ncache = ["cold", "warm"]\n[factors]\n', "cache"),
        ('"ext4"\n', '["ext4", "xfs"]\n', "target.image.filesystem"),
        ('size = "1 GB"', 'size = ["1 GB", "2 GB"]', "target.image.size"),
        ("events = 1000", "events = [1000, 2000]", "workload.scan.data.events"),
        ("[factors]\n", "[site]\npue = [1.1, 1.5]\n[factors]\n", "site.pue"),
    ],
)
def test_levels_outside_factors_are_told_where_they_belong(old: str, new: str, hint: str) -> None:
    good = GOOD.replace('target = ["disk", "image"]\n', "")
    good = good.replace('filesystem = ["ext4", "xfs"]\n', "")
    assert old in good
    (said,) = problems(good.replace(old, new))
    assert f"several levels go in [factors]: {hint} = […]" in said
    # What the hint says works.
    levels = new.partition(f"{hint.rpartition('.')[2]} = ")[2].partition("]")[0] or new.strip()[:-1]
    without = good.replace("slots = [1, 2]\n", "")
    load(without.replace("[factors]\n", f"[factors]\n{hint} = {levels}]\n"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[factors]\n", "[plan]\nseed = [1, 2]\n[factors]\n"),
        ("slots = [1, 2]", "slots = [[1, 2]]"),
        ("data = {", "data = { files = [], "),
        (
            'kind = "scan"\ndata = { events = 1000, files = 2 }',
            'kind = "stage"\nsource = "disk"\ndata = { files = ["own/*.root"] }',
        ),
    ],
)
def test_other_arrays_are_not_taken_for_levels(old: str, new: str) -> None:
    assert old in GOOD
    assert not any("several levels" in said for said in problems(GOOD.replace(old, new)))


def test_every_mistake_is_named_at_once() -> None:
    text = (
        GOOD.replace("slots = [1, 2]", "slots = [0]")
        .replace('size = "1 GB"', "size = true")
        .replace("title", "titel")
    )
    assert len(problems(text)) == 3


@pytest.mark.parametrize(
    ("first", "second", "field"),
    [
        ("slots = [1, 2]", "run.slots = [4]", "run.slots"),
        ('codec = ["zlib", "zstd"]', 'data.codec = ["lz4"]', "workload.scan.data.codec"),
        ("read_ahead = [0]", "target.disk.read_ahead = [4096]", "target.disk.read_ahead"),
        ("read_ahead = [0]", "target.image.read_ahead = [4096]", "target.image.read_ahead"),
        ('codec = ["zlib"]', "data = [{ events = 9, files = 1 }]", "workload.scan.data"),
        ('"site.node.link.rate" = ["1 Gb/s"]', 'site.node.link = ["10 Gb/s"]', "site.node.link"),
    ],
)
def test_a_factor_that_replaces_the_levels_of_another_is_refused(
    first: str, second: str, field: str
) -> None:
    study = GOOD.partition("[factors]")[0] + "[factors]\n"
    load(study + first)
    load(study + second)
    (said,) = problems(f"{study}{first}\n{second}\n")
    name, before = second.partition(" =")[0], first.partition(" =")[0].strip('"')
    assert f"factors.{name}: sets {field}, which the factor {before} varies, too" in said


def test_a_table_and_then_a_field_of_it_are_two_factors() -> None:
    data = "data = [{ events = 9, files = 1 }, { events = 99, files = 1 }]"
    study = load(GOOD.replace("codec =", f"{data}\ncodec ="))
    levels = {"data": {"events": 99, "files": 1}, "codec": "zstd"}
    options = resolve(study, "disk", "scan", levels).workload_options.data
    assert (options.events, options.codec) == (99, "zstd")


READERS = GOOD.replace(
    'codec = ["zlib", "zstd"]', 'reader = ["uproot", "rdataframe"]\nthreads = [1, 2]'
)


def test_levels_that_need_each_other_are_possible_where_the_others_are_excluded() -> None:
    study = load(READERS + '[[exclude]]\nreader = "uproot"\nthreads = 2\n')
    pairs = {(trial.levels["reader"], trial.levels["threads"]) for trial in make_plan(study).trials}
    assert pairs == {("uproot", 1), ("rdataframe", 1), ("rdataframe", 2)}
    only = '[[only]]\nreader = "rdataframe"\n[[only]]\nthreads = 1\n'
    assert make_plan(load(READERS + only)).trials


def test_levels_that_cannot_be_had_together_are_named() -> None:
    (text,) = problems(READERS)
    assert text.startswith("study.toml:21: factors.threads[1]: ")
    assert 'cannot be combined with reader = "uproot"' in text
    # An exclude of something else leaves them.
    assert problems(READERS + '[[exclude]]\nreader = "uproot"\nthreads = 1\n') == [text]
    # Without a reader that has threads, no other level helps.
    (text,) = problems(READERS.replace(', "rdataframe"]', "]"))
    assert "factors.threads[1]" in text and 'needs reader = "rdataframe"' in text


def test_an_exclude_that_leaves_nothing_is_refused() -> None:
    text = GOOD + '[[exclude]]\ntarget = ["disk", "image"]\n'
    with pytest.raises(StudyError) as caught:
        make_plan(load(text))
    assert "exclude" in str(caught.value.problems[0])


def test_equal_studies_have_equal_hashes() -> None:
    assert load(GOOD).hash == load("# a remark\n" + GOOD.replace("a study", "the same study")).hash
    assert load(GOOD).hash != load(GOOD.replace("events = 1000", "events = 1001")).hash


def test_the_published_schema_takes_good_studies_and_refuses_bad_ones() -> None:
    schema = study_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    good = parse_document(GOOD.encode(), Path("s")).values
    validator.validate(good)
    for study in (Path(__file__).parents[2] / "studies").glob("*.toml"):
        validator.validate(parse_document(study.read_bytes(), study).values)
    bad = parse_document(GOOD.replace("[factors]", "[factor]").encode(), Path("s")).values
    assert not validator.is_valid(bad)
    bad = parse_document(GOOD.replace('kind = "path"', 'kind = "pth"').encode(), Path("s")).values
    assert not validator.is_valid(bad)


@pytest.mark.parametrize("option", ['mkfs = "-K"', 'mkfs = ["-K"]', 'mount = "noatime,discard"'])
def test_options_as_text_or_list_are_in_the_published_schema(option: str) -> None:
    """Editors mark what the schema refuses, also where `headrace validate` takes it."""
    text = GOOD.replace('filesystem = "ext4"', f'filesystem = "ext4"\n{option}')
    load(text)
    values = parse_document(text.encode(), Path("s")).values
    jsonschema.Draft202012Validator(study_schema()).validate(values)


def path_of(written: str, **levels: str) -> str:
    study = load(GOOD.replace('"somewhere"', f'"{written}"'))
    return str(resolve(study, "disk", "scan", levels).target_options.path)


def test_variables_in_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRATCH", "/scratch/7")
    monkeypatch.setenv("odd", "wrong")
    assert path_of("$SCRATCH/x") == path_of("${SCRATCH}/x") == "/scratch/7/x"
    assert path_of("a$$odd") == "/base/a$odd"
    # Not the environment's: after `runuser` and `setpriv` that is another user's.
    monkeypatch.setenv("USER", "somebody")
    assert path_of("/var/tmp/$USER") == f"/var/tmp/{pwd.getpwuid(os.geteuid()).pw_name}"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("$NOT_SET_ANYWHERE/x", "variable NOT_SET_ANYWHERE is not set"),
        ("a$", "write $$"),
        ("${x", "write $$"),
        ("~no-such-user/x", "home directory"),
    ],
)
def test_a_path_that_means_nothing(written: str, words: str) -> None:
    (text,) = problems(GOOD.replace('"somewhere"', f'"{written}"'))
    assert text.startswith("study.toml:6: target.disk.path: ") and words in text


@pytest.mark.parametrize("name", ["plain", "$HOME and $5", "a b", 'quo"te', "ünï 😀", "new\nline"])
def test_the_first_study_of_a_directory_means_that_directory(name: str) -> None:
    study = load_study_text(
        first_study(Path("/data") / name, 2), file=Path("s.toml"), base=Path("/base")
    )
    assert resolve(study, "storage", "analysis", {}).target_options.path == f"/data/{name}"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            "[target.nas.tuning]\nclient_request_ns = 1_000_000_000_000_000_000\n",
            "study.toml:8: target.nas.tuning.client_request_ns: is too large (given: "
            "1000000000000000000); allowed: 0 to 60000000000",
        ),
        ("[target.nas.tuning]\nserver_threads = 1_000_000_000\n", "allowed: 0 to 65536"),
        ("[site.calibration]\ncall = '1e9 s'\n", "site.calibration.call: is too large"),
        ("[site.server.nas]\ndrvs = 1\n", 'did you mean "drives"?'),
    ],
)
def test_what_no_service_has_is_refused(table: str, words: str) -> None:
    study = (
        'headrace = 1\n[target.nas]\nkind = "nfs"\nexport = { drive = "corsair-f40" }\n'
        '[workload.read]\nkind = "sequential"\n'
    )
    found = problems(study + table)
    assert any(words in text for text in found), found


@pytest.mark.parametrize(
    ("repeats", "said"),
    [
        ("min = 3, max = 9", "max = 9 has no effect without interval"),
        ("min = 3, interval = 0.1", "interval has no effect without max"),
        ("min = 3, max = 3", ""),
        ("min = 3, max = 9, interval = 0.1", ""),
    ],
)
def test_repeats_that_have_no_effect_are_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], repeats: str, said: str
) -> None:
    """A study with a maximum alone had its fewest repeats, without a word."""
    file = tmp_path / "study.toml"
    file.write_text(GOOD + f"[plan]\nrepeats = {{ {repeats} }}\n", encoding="utf-8")
    validate(file)
    told = " ".join(capfd.readouterr().err.split())
    assert said in told if said else not told


def test_a_unit_for_a_metric_is_answered_by_the_metrics(tmp_path: Path) -> None:
    """The message was a regular expression."""
    file = tmp_path / "study.toml"
    file.write_text(GOOD + '[report]\nmetric = "wh/job"\n', encoding="utf-8")
    with pytest.raises(StudyError) as refused:
        load_study(file)
    message = refused.value.message
    assert "report.metric: unknown metric; its name is energy_wh_per_job or " in message
    assert " (given: wh/job); allowed: bytes_per_s, throughput, " in message
