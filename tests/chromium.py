"""A headless Chromium that tests drive over its DevTools pipe.

Loads a page at a width, tells what it did, takes pictures.
"""

from __future__ import annotations

import base64
import json
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from headrace.system.waiting import wait_until

# The first is the second without its windows, and needs less CPU time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


def find() -> str:
    """Path of the browser; an AssertionError says what to install when there is none."""
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    raise AssertionError(
        f"no Chromium found (looked for {', '.join(NAMES)}); install it, on Debian: apt-get "
        f"install {NAMES[0]}"
    )


class Chromium:
    """One browser with one tab.

    Use as a context manager; the process and its profile go away with it.
    """

    def __enter__(self) -> Chromium:
        self._profile = tempfile.TemporaryDirectory(
            prefix="headrace-chromium-", ignore_cleanup_errors=True
        )
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def descriptors() -> None:
            # Chromium reads commands on descriptor 3 and answers on 4; through high numbers first,
            # as either may be taken.
            high_in, high_out = os.dup2(to_browser, 103), os.dup2(from_browser, 104)
            os.dup2(high_in, 3)
            os.dup2(high_out, 4)

        self._process = subprocess.Popen(
            [
                find(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
                "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--hide-scrollbars",
                f"--user-data-dir={self._profile.name}", "--remote-debugging-pipe", "about:blank",
            ],
            close_fds=False, preexec_fn=descriptors, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        target = self._command("Target.createTarget", {"url": "about:blank"}, session=None)[
            "targetId"
        ]
        self._session = self._command(
            "Target.attachToTarget", {"targetId": target, "flatten": True}, session=None
        )["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        # Its other processes would write to the profile while it is removed.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
        wait_until(self._is_removed, 10.0, 0.05)

    def _is_removed(self) -> bool:
        self._profile.cleanup()
        return not Path(self._profile.name).exists()

    def command(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        """One DevTools command to the tab."""
        return self._command(method, parameters or {}, self._session)

    def _command(
        self, method: str, parameters: dict[str, Any], session: str | None
    ) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "Chromium did not answer"
            piece = os.read(self._read, 1 << 20)
            assert piece, "Chromium ended"
            self._buffer += piece
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, page: Path | str, width: int, height: int = 900) -> None:
        """Loads a file, or a URL, at this width in CSS pixels; returns when its load event has
        fired."""
        self.events.clear()
        self.command(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        url = page if isinstance(page, str) else page.resolve().as_uri()
        self.command("Page.navigate", {"url": url})
        self.loaded()

    def show(self, page: Path, width: int, drawn: str, changed: str = "") -> bool:
        """Opens a file, waits for `drawn`, and tells whether it was loaded for this.

        To load and draw a report takes two seconds of CPU time. So one that is there as it was
        loaded is not loaded again, nor one that was changed by a caller with the same `changed`.
        """
        state = "document.documentElement.dataset.state"
        here, wide, was = self.evaluate(f"[location.href, innerWidth, {state}]")
        usable = was is not None and was in ("", changed)
        anew = not usable or (here, wide) != (page.resolve().as_uri(), width)
        if anew:
            self.open(page, width)
            self.wait_for(drawn)
        self.evaluate(f"{state} = {json.dumps(changed)}")
        return anew

    def loaded(self) -> None:
        """Waits for the load event of a page that was asked for after the last look at events."""
        deadline = time.monotonic() + 60
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive(deadline))

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression (promises are awaited)."""
        result = self.command(
            "Runtime.evaluate",
            {"expression": expression, "returnByValue": True, "awaitPromise": True},
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str, times: int = 1) -> None:
        """Presses and releases a key of the keyboard."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40}
        event = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        text = {"Enter": "\r", " ": " "}.get(key)
        for _ in range(times):
            down = {**event, "type": "keyDown", **({"text": text} if text else {})}
            self.command("Input.dispatchKeyEvent", down)
            self.command("Input.dispatchKeyEvent", {**event, "type": "keyUp"})

    def wait_for(self, expression: str, seconds: float = 30) -> None:
        """Returns when the expression is true."""
        deadline = time.monotonic() + seconds
        while not self.evaluate(expression):
            assert time.monotonic() < deadline, f"never true: {expression}; {self.errors()}"
            time.sleep(0.05)

    def errors(self) -> list[str]:
        """Uncaught exceptions, console errors, and what the page's own policy refused."""
        found: list[str] = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(json.dumps(event["params"]["exceptionDetails"]))
            elif (
                event.get("method") == "Log.entryAdded"
                and event["params"]["entry"]["level"] == "error"
            ):
                found.append(event["params"]["entry"]["text"])
            elif (
                event.get("method") == "Runtime.consoleAPICalled"
                and event["params"]["type"] == "error"
            ):
                found.append(json.dumps(event["params"]["args"]))
        return found

    def requests(self) -> list[str]:
        """Every URL that was asked for, apart from data: and blob: ones."""
        urls = [
            e["params"]["request"]["url"]
            for e in self.events
            if e.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("data:", "blob:"))]

    def picture(self, file: Path, *, whole: bool = True) -> None:
        """A PNG of the page, of its whole height or of the window."""
        if whole:
            # A window as high as the page, as pictures beyond the window catch figures in the
            # middle of a layout.
            size = self.command("Page.getLayoutMetrics")["cssContentSize"]
            width, height = math.ceil(size["width"]), math.ceil(size["height"])
            self.command(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
            )
            time.sleep(1)
        file.write_bytes(
            base64.b64decode(self.command("Page.captureScreenshot", {"format": "png"})["data"])
        )


def main() -> None:
    """`python tests/chromium.py PAGE PICTURE [WIDTH [HEIGHT]]`.

    A picture of a page, of its whole height without HEIGHT.
    """
    page, picture = Path(sys.argv[1]), Path(sys.argv[2])
    width = int(sys.argv[3]) if len(sys.argv) > 3 else 1280
    height = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    with Chromium() as browser:
        browser.open(page, width, height or 900)
        browser.wait_for("document.documentElement.dataset.drawn !== undefined")
        time.sleep(1)
        browser.picture(picture, whole=not height)


if __name__ == "__main__":
    main()
