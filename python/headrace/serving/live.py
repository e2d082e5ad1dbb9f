"""Live parts of pages: server-sent events with HTML for elements, by their ids."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from starlette.responses import StreamingResponse

from headrace.errors import HeadraceError, describe

_HEARTBEAT = 15
"""Looks without a change after which something is sent, to notice a browser that has gone."""
_STEP_S = 0.25
"""How long the server waits for a stream when it is stopped."""


@dataclass(frozen=True)
class Look:
    """The live parts of a page at one moment."""

    parts: dict[str, str] = field(default_factory=dict[str, str])
    """HTML by the id of the element; its values are escaped."""
    say: str = ""
    """One line for a screen reader too."""
    end: bool = False
    """Nothing changes from now on."""


class Live:
    """Streams that end when the server is stopped."""

    def __init__(self) -> None:
        self.stopped = False

    def stream(
        self,
        look: Callable[[], Look],
        interval_s: float,
        gone: Callable[[], None] = lambda: None,
    ) -> StreamingResponse:
        """Answer with what `look` returns, each time that it has changed; it runs in a thread.

        `gone` is called when nobody reads the stream any more.
        """
        return StreamingResponse(
            self._until_gone(self._events(look, interval_s), gone),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    async def _until_gone(
        self, events: AsyncGenerator[str], gone: Callable[[], None]
    ) -> AsyncGenerator[str]:
        try:
            async for event in events:
                yield event
        finally:
            gone()

    async def _events(self, look: Callable[[], Look], interval_s: float) -> AsyncGenerator[str]:
        sent, silent = "", 0
        while not self.stopped:
            try:
                seen = await asyncio.to_thread(look)
            except (HeadraceError, OSError) as error:
                seen = Look(say=describe(error))
            text = json.dumps({"parts": seen.parts, "say": seen.say, "end": seen.end})
            silent = 0 if text != sent else silent + 1
            if text != sent:
                yield f"data: {text}\n\n"
            elif silent % _HEARTBEAT == 0:
                yield ": still here\n\n"
            sent = text
            if seen.end:
                return
            await self._pause(interval_s)

    async def _pause(self, seconds: float) -> None:
        for _ in range(max(1, round(seconds / _STEP_S))):
            if not self.stopped:
                await asyncio.sleep(min(seconds, _STEP_S))
