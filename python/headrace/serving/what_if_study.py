"""The question of the what-if page, and the study file that answers it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from headrace.catalog import names
from headrace.errors import UsageError
from headrace.serving.files import files_below
from headrace.serving.folders import inside, named_folder
from headrace.serving.what_if_site import in_study, inline, named_from_anywhere, site_lines
from headrace.workloads import kinds

SLOTS = (1, 2, 4, 8, 16, 32, 64)
NODES_AT_MOST = 1000
PROFILES_AT_MOST = 200
_PROFILE_LETTERS = 1_000_000
"""So much of a file is read to tell whether it is a profile."""
_FILES_AT_LEAST = 32
_EVENTS_OF_A_FILE = 1250
BUILT_IN = {
    "analysis": 'kind = "analysis"\ndata = { shape = "bench", EVENTS, order = "unordered" }',
    "analysis-ordered": 'kind = "analysis"\ndata = { shape = "bench", EVENTS }',
    "scan": 'kind = "scan"\ndata = { EVENTS }',
}
"""Workloads as TOML; `EVENTS` stands for the events and files."""
BUILT_IN_TITLES = {
    "analysis": "Higgs search, every collection, files not in reading order",
    "analysis-ordered": "Higgs search, files in reading order",
    "scan": "Scan of all events",
}
RAID = ("none", "0", "1", "5", "6", "10")
FILESYSTEMS = ("ext4", "xfs", "ext3", "btrfs")
WHERE = {
    "local": "drives in the node",
    "nfs": "an NFS server with these drives",
    "xrootd": "XRootD servers with these drives",
    "glusterfs": "GlusterFS servers with these drives",
    "cephfs": "CephFS servers with these drives, 3 copies",
}
CACHES = {"cold": "cold", "warm": "warm: files were read once"}
SERVERS_AT_MOST = 64
LINKS = ("1 GbE", "10 GbE", "25 GbE", "100 GbE")


@dataclass(frozen=True)
class Question:
    """What the form of the page asks."""

    job: str = "builtin/analysis"
    """`builtin/…`, `catalog/…` (a profile), `file/…` (a recorded profile), `study/WORKLOAD/…` (a
    workload of a results folder)."""
    drive: str = "samsung-870-evo-1tb"
    raid: str = "none"
    drives: int = 4
    """Members of a RAID."""
    filesystem: str = "ext4"
    where: str = "local"
    link: str = "10 GbE"
    nodes: int = 1
    most_slots: int = 16
    site: str = "catalog/generic-node"
    """`catalog/…` (a machine), `study/…` (a results folder), `file/…` (a file with `[site]`)."""
    server: str = "generic-server"
    """Machine of the catalog."""
    servers: int = 1
    cache: str = "cold"

    @property
    def drives_in_all(self) -> int:
        """Drives to buy: of every node, or of the server."""
        members = 1 if self.raid == "none" else self.drives
        return members * (self.nodes if self.where == "local" else self.servers)

    def fields(self) -> dict[str, str]:
        """Return the question as fields of the form."""
        return {name: str(value) for name, value in vars(self).items()}


class WrongValueError(UsageError):
    """A field of a form has a value that the form does not offer."""


def question_of(given: Mapping[str, str]) -> Question:
    """Return the question of a form. Raises WrongValueError for one that is not offered."""
    made = Question()
    texts = {
        "drive": names("drives"),
        "raid": RAID,
        "filesystem": FILESYSTEMS,
        "where": tuple(WHERE),
        "link": LINKS,
        "server": names("nodes"),
        "cache": tuple(CACHES),
    }
    values: dict[str, str] = {}
    for name, allowed in texts.items():
        values[name] = given.get(name, str(getattr(made, name)))
        if values[name] not in allowed:
            raise WrongValueError(f"{name} {values[name]}: allowed: {', '.join(allowed)}")
    servers = _number(given, "servers", 1, 1, SERVERS_AT_MOST)
    if values["where"] == "nfs" and servers > 1:
        raise WrongValueError(
            f"servers {servers}: NFS has one", hint="XRootD, GlusterFS, CephFS: more"
        )
    return Question(
        given.get("job", made.job), values["drive"], values["raid"],
        _number(given, "drives", made.drives, 2, 24), values["filesystem"], values["where"],
        values["link"], _number(given, "nodes", 1, 1, NODES_AT_MOST),
        _number(given, "most_slots", made.most_slots, 1, SLOTS[-1]),
        given.get("site", made.site), values["server"],
        servers, values["cache"],
    )  # fmt: skip


def _number(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = given.get(name, "") or str(default)
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise WrongValueError(f"{name} {text}: allowed: {least} to {most}")
    return int(text)


@dataclass(frozen=True)
class WrittenStudy:
    """A study file in the making."""

    text: str
    base: Path
    """What its relative paths refer to."""


def study_of(question: Question, root: Path) -> WrittenStudy:
    """Return the study file of a question. Raises UsageError for a job that is not there."""
    workload, base, title = _workload(question, root)
    most = question.most_slots
    slots = [*(each for each in SLOTS if each < most), most]
    raid = (
        ""
        if question.raid == "none"
        else f", raid = {{ level = {question.raid}, drives = {question.drives} }}"
    )
    medium = f'drive = "{question.drive}", filesystem = "{question.filesystem}"{raid}'
    link = "" if question.where == "local" else question.link
    job_name = question.job.split("/")[1] if question.job.startswith("study/") else ""
    lines = [
        "headrace = 1",
        f"title = {inline(f'What if: {title} on {question.drive}')}",
        "",
        *site_lines(question.site, root, question.nodes, link, job_name),
        *_storage(question, medium),
    ]
    lines += [
        "", "[workload.job]", workload.strip(), "", "[factors]", f"slots = {slots}", "", "[plan]",
        "repeats = { min = 1 }", "", "[run]", f'cache = "{question.cache}"',
        f"nodes = {question.nodes}", "",
    ]  # fmt: skip
    return WrittenStudy("\n".join(lines), base)


def _storage(question: Question, medium: str) -> list[str]:
    """Return the lines of the target, and of its servers."""
    if question.where == "local":
        return ["", "[target.storage]", 'kind = "block"', *medium.split(", ", 2)]
    servers = [
        "", "[site.server.nas]", f'machine = "{question.server}"', f'link = "{question.link}"',
        *([f"count = {question.servers}"] if question.servers > 1 else []),
    ]  # fmt: skip
    target = ["", "[target.storage]", f'kind = "{question.where}"']
    if question.where in ("xrootd", "glusterfs"):
        return [*servers, *target, f'bricks = {{ on = "nas", {medium} }}']
    return [*servers, *target, 'server = "nas"', f"export = {{ {medium} }}"]


def _workload(question: Question, root: Path) -> tuple[str, Path, str]:
    """Return the workload as TOML, the base of its paths, and its name for people."""
    kind, _, name = question.job.partition("/")
    if kind == "builtin" and name in BUILT_IN:
        # A file for each job: of jobs that share one, all but the first read from memory.
        files = max(_FILES_AT_LEAST, question.nodes * question.most_slots)
        events = f"events = {_EVENTS_OF_A_FILE * files:_}, files = {files:_}"
        return BUILT_IN[name].replace("EVENTS", events), root.resolve(), BUILT_IN_TITLES[name]
    if kind == "catalog" and name in names("profiles"):
        return f'kind = "replay"\nprofile = {inline(name)}', root.resolve(), name
    if kind == "file" and inside(root, name).is_file():
        path = inline(in_study(inside(root, name)))
        return f'kind = "replay"\nprofile = {path}', root.resolve(), name
    if kind == "study":
        return _workload_of_results(name, root)
    raise UsageError(
        f"job {question.job}: there is no such job, or it no longer exists",
        hint="choose another on the what-if page",
    )


def _workload_of_results(name: str, root: Path) -> tuple[str, Path, str]:
    workload, _, folder_name = name.partition("/")
    folder = named_folder(root, folder_name, counted=False)
    from headrace.records.store import read_header

    table = _workloads(folder.path).get(workload)
    if not isinstance(table, dict):
        raise UsageError(f"{folder.name}: its study has no workload {workload}")
    base = Path(read_header(folder.path).base)
    written = cast("dict[str, object]", table)
    kind = kinds().get(str(written.get("kind")))
    written = named_from_anywhere(written, base, None if kind is None else kind.Options)
    lines = [f"{key} = {inline(value)}" for key, value in written.items()]
    return "\n".join(lines), base, f"{workload} of {folder.title}"


def _workloads(results: Path) -> dict[str, object]:
    try:
        found = tomllib.loads((results / "study.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found.get("workload", {})


def recorded_profiles(root: Path) -> list[str]:
    """Return the files below a folder that look like job profiles: recorded, or in outline."""
    found: list[str] = []
    for name, file in files_below(root):
        try:
            with file.open(encoding="utf-8") as lines:
                text = lines.read(_PROFILE_LETTERS)
        except (OSError, UnicodeDecodeError):
            continue
        if "steps_file" in text[:4096] or "\n[outline]\n" in text:
            found.append(name)
    return found


def workloads_of_results(results: Path) -> list[str]:
    """Return the workloads of the study of a results folder; none when it cannot be read."""
    return list(_workloads(results))
