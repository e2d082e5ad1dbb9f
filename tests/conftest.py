"""What every test starts with."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Let Ctrl-C and a closed terminal reach Headrace, also where the tests were started with both ignored.

    `nohup`, and a shell without job control that starts them with `&`, ignore them for all children.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
