"""The server's process: listens, prints the link, and ends on Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager

import uvicorn
from typing_extensions import override

from headrace.serving.access import Visitors
from headrace.serving.application import make_application
from headrace.serving.listening import ServeOptions, listen
from headrace.serving.live import Live
from headrace.serving.worker import WhatIfWorker

_END_S = 3
"""Time for answers in progress when the server is stopped."""


def serve_results(
    options: ServeOptions, tell: Callable[[str, str], object], stop: threading.Event
) -> None:
    """Serve a folder until `stop` is set. `tell` is called with the link, and with that for other
    machines where it is another, once all is ready.

    Raises UsageError or RefusedError before anything starts.
    """
    listening = listen(options)
    live, worker = Live(), WhatIfWorker()
    with listening.socket, closing(worker):
        access = Visitors(listening)
        application = make_application(options.folder, access, live, worker)
        server = _Server(
            uvicorn.Config(
                application, log_config=None, access_log=False, lifespan="off",
                server_header=False, timeout_graceful_shutdown=_END_S, ws="none",
                ssl_certfile=listening.certificate, ssl_keyfile=listening.key,
            ),
            live, stop,
        )  # fmt: skip
        # Its imports are done by the time that somebody asks.
        worker.start()
        tell(access.link, listening.elsewhere)
        server.run(sockets=[listening.socket])


class _Server(uvicorn.Server):
    """Uvicorn, stopped by an event: the signals are Headrace's own."""

    def __init__(self, config: uvicorn.Config, live: Live, stop: threading.Event) -> None:
        super().__init__(config)
        self._live, self._stop = live, stop

    @contextmanager
    @override
    def capture_signals(self) -> Generator[None]:
        """Leave the signals alone."""
        yield

    @override
    async def on_tick(self, counter: int) -> bool:
        """Return whether the server ends now."""
        if self._stop.is_set():
            self._live.stopped = True
            self.should_exit = True
        return await super().on_tick(counter)
