"""The documentation builds as a site: no dead link, no page outside the navigation, a reference."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workspace import ROOT


def built(site: Path, config: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(site), "-f", str(config)],
        cwd=config.parent,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video)\b[^>]*\bsrc=["']?(?:https?:)?//
    | <link\b(?=[^>]*\brel=["']?(?:stylesheet|preload|icon|manifest|modulepreload))
      [^>]*\bhref=["']?(?:https?:)?//
    | url\(["']?(?:https?:)?// | @import\s+["'](?:https?:)?//
    | class=["']?[^"'>]*\bmermaid\b""",
    re.VERBOSE,
)
"""What a browser loads from another server; the theme loads Mermaid where it finds a diagram."""


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    site = tmp_path / "site"
    ended = built(site, ROOT / "mkdocs.yml")
    assert ended.returncode == 0, ended.stderr
    reference = (site / "reference" / "plugins.html").read_text()
    for name in ("Target", "Workload", "Probe", "InjectedFault", "Metric"):
        assert f">{name}</" in reference, name
    assert "simulate" in (site / "reference" / "library.html").read_text()
    assert "job slots" in (site / "search" / "search_index.json").read_text()
    cluster = (site / "cluster.html").read_text()
    assert '<code tabindex="0">' in cluster and "<span></span><code>" not in cluster, (
        "code that scrolls is reached by keyboard"
    )
    pages = [page.relative_to(site).as_posix() for page in site.rglob("*.html")]
    assert {f"{page.stem}.html" for page in (ROOT / "docs").glob("*.md")} <= set(pages)
    shown = [file for file in site.rglob("*") if file.suffix in (".html", ".css")]
    loading = [
        (str(file), found[0]) for file in shown if (found := LOADED.search(file.read_text()))
    ]
    assert loading == [], "the site works without a network"


def test_a_dead_link_is_an_error(tmp_path: Path) -> None:
    for name in ("mkdocs.yml", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for name in ("docs", "scripts", "python"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so"))
    with (tmp_path / "README.md").open("a") as page:
        page.write("\nRead [the missing page](docs/no-such-page.md).\n")
    ended = built(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert ended.returncode != 0
    assert "docs/no-such-page.md" in ended.stderr
