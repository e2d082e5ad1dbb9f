"""The site of a what-if question: nodes of the catalog, of results, or of a site file."""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from headrace.catalog import names
from headrace.catalog.write_cache import stated_cache
from headrace.document import anchored_path
from headrace.errors import UsageError
from headrace.records.store import read_header
from headrace.serving.files import files_below
from headrace.serving.folders import inside, named_folder, results_folders
from headrace.site import OF_WORKLOADS
from headrace.study.fields import anchored_fields, entry_names, with_level

_LARGEST = 1 << 20
"""Bytes of a file that may be a site."""
Table = dict[str, object]


def inline(value: object) -> str:
    """Return a value as TOML on one line."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(str(k))} = {inline(v)}" for k, v in value.items())  # pyright: ignore
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return f"[{', '.join(inline(each) for each in value)}]"  # pyright: ignore
    return json.dumps(value, ensure_ascii=False)


def named_from_anywhere(written: Table, base: Path, model: type[BaseModel] | None = None) -> Table:
    """Return a table of a study with absolute paths: the new study may lie in another folder.

    `model` names the fields that are paths; entries of the catalog may be files in any table.
    A path that cannot be resolved is kept, and refused where the study is read.
    """
    found = written if model is None else anchored_fields(model, written, base)[0]
    for place, _, name in entry_names(found):
        file, cache_state = stated_cache(name)
        with contextlib.suppress(ValueError):
            if file.endswith(".toml"):
                state = "" if cache_state is None else f" write-cache={cache_state}"
                found = with_level(found, place, f"{anchored_path(base, file)}{state}")
    return _with_dollars(written, found)


def _with_dollars(written: Any, anchored: Any) -> Any:
    """Return what was anchored with the dollar signs of its paths doubled, as a study has them."""
    if written == anchored:
        return anchored
    if isinstance(anchored, dict):
        pairs = cast("dict[str, Any]", anchored).items()
        return {key: _with_dollars(written.get(key), value) for key, value in pairs}
    if isinstance(anchored, list):
        both = zip(written, cast("list[Any]", anchored), strict=True)
        return [_with_dollars(*each) for each in both]
    return in_study(anchored)


def in_study(path: object) -> str:
    """Return a path as the text of a study file that means it."""
    return str(path).replace("$", "$$")


def offered_sites(root: Path) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return groups of sites to choose from: values and titles."""
    of_results = (
        (f"study/{folder.name}", f"{folder.title} ({folder.name})")
        for folder in results_folders(root, counted=False)
        if not folder.damage and _site_of(folder.path / "study.toml")
    )
    return [
        ("Nodes of the catalog", [(f"catalog/{name}", name) for name in names("nodes")]),
        ("Sites of results", list(of_results)),
        ("Site files", list(_site_files(root))),
    ]


def _site_files(root: Path) -> Iterator[tuple[str, str]]:
    for name, file in files_below(root):
        if not (file.parent / "results.json").exists() and _site_of(file):
            yield f"file/{name}", name


def site_lines(site: str, root: Path, nodes: int, link: str, workload: str) -> list[str]:
    """Return the lines of `[site]`: the nodes of a site, as many as asked for.

    Servers of a site are left out: the question has its own storage. `link` is that of nodes of the
    catalog; empty for none. `workload` is the job's name in the site's study, for its calibration.
    Raises UsageError for a site that is not there.
    """
    kind, _, name = site.partition("/")
    if kind == "catalog" and name in names("nodes"):
        node: Table = {"machine": name, "count": nodes}
        more: Table = {}
    else:
        found = named_from_anywhere(*_site_and_base(kind, name, root))
        if not found:
            raise UsageError(
                f"site {site}: there is no such site, or it no longer exists",
                hint="choose another on the what-if page",
            )
        node = {**_table(found, "node"), "count": nodes}
        more = {key: value for key, value in found.items() if key not in ("node", "server")}
        calibration = _calibration(_table(found, "calibration"), workload)
        more = {**more, "calibration": calibration} if calibration else more
    if link:
        node["link"] = link
    # Drives of the nodes are those of the question.
    node.pop("drives", None)
    return [
        "[site]",
        *(f"{key} = {inline(value)}" for key, value in more.items()),
        "",
        "[site.node]",
        *(f"{key} = {inline(value)}" for key, value in node.items()),
    ]


def _calibration(known: Mapping[str, object], workload: str) -> Table:
    """Return what a calibration says of machines and of this job; the rest is of other storage."""
    kept = {key: value for key, value in known.items() if key != "target"}
    for name in OF_WORKLOADS:
        # A slowdown may be a number: of all workloads.
        if isinstance(kept.get(name), dict):
            of = _table(kept, name)
            kept[name] = {"job": of[workload]} if workload in of else {}
    return kept


def _site_and_base(kind: str, name: str, root: Path) -> tuple[Table, Path]:
    """Return a `[site]`, and what its relative paths refer to."""
    if kind == "study":
        folder = named_folder(root, name, counted=False).path
        return _site_of(folder / "study.toml"), Path(read_header(folder).base)
    file = inside(root, name)
    return _site_of(file), file.parent


def _site_of(file: Path) -> Table:
    """Return the `[site]` of a file; empty if it has none."""
    try:
        if file.suffix != ".toml" or file.stat().st_size > _LARGEST:
            return {}
        return _table(tomllib.loads(file.read_text(encoding="utf-8")), "site")
    except (OSError, ValueError):
        return {}


def _table(of: Mapping[str, object], name: str) -> Table:
    found = of.get(name)
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}  # pyright: ignore
