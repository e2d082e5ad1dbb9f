"""A running `headrace serve`, as the command starts it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import httpx

from chromium import Chromium
from command_server import Started, start_anew, start_command

PHONE, DESK = 390, 1280


@dataclass
class Served:
    """The server's process and its link."""

    process: Started
    link: str
    client: httpx.Client = field(repr=False)

    @property
    def origin(self) -> str:
        return self.link.partition("/?")[0].rstrip("/")

    def get(self, path: str, **options: object) -> httpx.Response:
        return self.client.get(f"{self.origin}{path}", **options)  # pyright: ignore

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Ask it to end; its exit code and what it said."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return self.process.wait(), said


@contextmanager
def serving(
    folder: Path, *options: object, cwd: Path | None = None, anew: bool = False
) -> Generator[Served]:
    """Serve a folder at a free port until the block ends; with a client that has the cookie.

    `anew`: in a process that is started as a shell does it.
    """
    words = ["serve", str(folder), "--port", "0", *map(str, options)]
    start = start_anew if anew else start_command
    process = start(words, cwd or folder, dict(os.environ))
    try:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        assert link.startswith("http"), process.communicate()
        with httpx.Client(verify=False, timeout=60, trust_env=False) as client:
            client.get(link)
            yield Served(process, link, client)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def violations(tab: Chromium) -> list[str]:
    """What axe finds at the page as it is now, for WCAG 2.1 A and AA."""
    package = find_spec("axe_core_python")
    assert package is not None and package.origin is not None
    script = (Path(package.origin).parent / "axe.min.js").read_text()
    tab.evaluate(f"(() => {{ {script}; }})(); 0")
    # No more of its findings than is used below, which takes a quarter less CPU time.
    return tab.evaluate(
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'],"
        " resultTypes: ['violations'], selectors: false}).then((found) =>"
        " found.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html).join(' ')"
        ".slice(0, 300)))"
    )
