"""The page of what running jobs of this node wait for, live: `headrace watch` as a table."""

from __future__ import annotations

import threading
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.errors import HeadraceError, UsageError, describe
from headrace.serving import pages
from headrace.serving.live import Live, Look
from headrace.units import format_bytes_per_s, format_share
from headrace.user import user_name
from headrace.watching import Watcher, finder_kinds
from headrace.watching.used import JobSample, Used
from headrace.watching.view import Recent, footnotes, heading

KINDS = {
    "user": "jobs of a user",
    "pid": "processes by number",
    "cgroup": "control groups",
    "slurm": "jobs of Slurm",
    "condor": "jobs of HTCondor",
    "all": "all jobs of the node",
}
PARTS = {
    "on_cpu": "On CPU",
    "wait_cpu": "Waits for a CPU",
    "wait_block": "Waits for block I/O",
    "wait_network": "Waits for network storage",
    "wait_memory": "Waits for memory",
    "other": "Other",
}
_INTERVAL_S = 1.0
_PAUSE_S = 0.05
_ROWS_AT_MOST = 100


class WatchPages:
    """Every page that is open has a watch of its own, which ends with it."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [Route("/watch", self.show), Route("/events/watch", self.events)]

    def show(self, request: Request) -> Response:
        """Show the form, and the place of the table once jobs were chosen."""
        kind = request.query_params.get("kind", "")
        names = request.query_params.get("names", user_name() if not kind else "")
        return pages.page(
            request, "watch.html.j2", "Watch", kinds=KINDS, kind=kind or "user", names=names,
            asked=bool(kind), problem=_problem(kind, names) if kind else "",
            query=urlencode({"kind": kind, "names": names}),
        )  # fmt: skip

    def events(self, request: Request) -> Response:
        """Send the table every second. Raises what `Finder.find` raises, as a page."""
        kind = request.query_params.get("kind", "")
        names = request.query_params.get("names", "")
        if problem := _problem(kind, names):
            raise UsageError(problem)
        watch = _Watch(kind, ["all"] if kind == "all" else names.split())
        return self._live.stream(watch.look, _PAUSE_S, watch.close)


def _problem(kind: str, names: str) -> str:
    """Return why this cannot be watched; empty when it may be."""
    if kind not in KINDS:
        return f"{kind}: allowed: {', '.join(KINDS)}"
    return "" if kind == "all" or names.split() else f"No {KINDS[kind]} are named."


class _Watch:
    """One watch; `look` takes a second, in a thread."""

    def __init__(self, kind: str, names: list[str]) -> None:
        self._kind, self._names = kind, names
        self._watcher: Watcher | None = None
        self._recent = Recent()
        self._stop = threading.Event()
        self._looking = threading.Lock()

    def look(self) -> Look:
        """Watch for a second and return the table."""
        with self._looking:
            if self._stop.is_set():
                return Look(end=True)
            if self._watcher is None:
                try:
                    self._watcher = Watcher(finder_kinds()[self._kind](self._names)).__enter__()
                except HeadraceError as error:
                    return Look({"watch": ""}, describe(error), end=True)
            sample = self._watcher.watch(_INTERVAL_S, self._stop.is_set)
            recent = self._recent.add(sample.jobs)
            lost = sorted(sample.jobs, key=lambda job: (-recent[job.key].ledger.lost_s, job.name))
            part = pages.fragment(
                "watch_part.html.j2", line=heading(sample, sample.jobs), parts=PARTS,
                rows=[_row(job, recent[job.key]) for job in lost[:_ROWS_AT_MOST]],
                more=max(0, len(lost) - _ROWS_AT_MOST), notes=footnotes(lost, sample.notes),
            )  # fmt: skip
            over = not self._watcher.living and finder_kinds()[self._kind].ends
            return Look({"watch": part}, "All of these jobs have ended." if over else "", over)

    def close(self) -> None:
        """End the watch, once a look that is under way is over."""
        self._stop.set()
        threading.Thread(target=self._close).start()

    def _close(self) -> None:
        with self._looking:
            if self._watcher is not None:
                self._watcher.close()


def _row(job: JobSample, used: Used) -> dict[str, object]:
    ledger = used.ledger
    rate = used.moved.served / ledger.wall_s if ledger.wall_s else 0.0
    return {
        "name": job.name,
        "shares": [(title, format_share(ledger.shares[part])) for part, title in PARTS.items()],
        "rate": format_bytes_per_s(rate) if rate >= 1 else "–",
        "place": ledger.longest_wait or "–",
    }
