"""Pages of the site that are not files of docs/: README and its neighbours, and the API reference.

A hook of MkDocs (mkdocs.yml). Links between these pages and docs/ are rewritten to the site's
layout; links to other files of the repository become plain text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
AT_THE_TOP = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")

LIBRARY = """# Python library

Run, simulate and report studies from Python:

```python
import headrace

results = headrace.simulate("study.toml")     # or headrace.run: real jobs on real storage
findings, files = headrace.report(results)
headrace.records(results).df()                # one row per job
```
"""
PLUGINS = """# Interfaces of plug-ins

Write a target, workload, probe, fault or metric of your own; [Contributing](../CONTRIBUTING.md) has
an example of each. Every interface below is the base class of one package.
"""
REFERENCE = {
    "reference/library.md": (LIBRARY, ["library", "errors"]),
    "reference/plugins.md": (
        PLUGINS,
        ["targets", "workloads", "probes", "faults", "metrics", "registry", "records.trial_record"],
    ),
}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from the top of the repository and the reference."""
    for name, page in AT_THE_TOP.items():
        text = _relinked((ROOT / name).read_text(encoding="utf-8"), name)
        files.append(File.generated(config, page, content=text))
    for page, (head, modules) in REFERENCE.items():
        parts = [f"## headrace.{module}\n\n::: headrace.{module}\n" for module in modules]
        files.append(File.generated(config, page, content="\n".join([head, *parts])))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links that leave docs/."""
    source = f"docs/{page.file.src_uri}"
    return _relinked(markdown, source) if (ROOT / source).is_file() else markdown


def on_page_content(html: str, **_: Any) -> str:
    """Let the keyboard reach blocks of code: on a phone, long lines are seen by scrolling alone."""
    return html.replace("<pre><span></span><code>", '<pre><span></span><code tabindex="0">')


def _relinked(text: str, source: str) -> str:
    """Return a page's text with links as the site has them; `source` is its path in the repo.

    Raises PluginError for a link to a file that is not there.
    """

    def changed(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        path, hash_, anchor = target.partition("#")
        file = (ROOT / source).parent / path
        if not file.exists():
            raise PluginError(f"{source}: the link to {target} is dead")
        place = file.resolve().relative_to(ROOT).as_posix()
        if place.startswith("docs/"):
            place = place.removeprefix("docs/")
        elif place in AT_THE_TOP:
            place = AT_THE_TOP[place]
        else:
            return words
        return f"{picture}[{words}]({place}{hash_}{anchor})"

    return LINK.sub(changed, text)
