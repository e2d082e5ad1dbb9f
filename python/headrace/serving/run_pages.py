"""Pages that start studies, follow them, and stop them."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from headrace.errors import UsageError
from headrace.serving import pages
from headrace.serving.access import Visitors
from headrace.serving.files import listed
from headrace.serving.folders import ResultsFolder, read_folder
from headrace.serving.live import Live, Look
from headrace.serving.pace import Pace, pace_of
from headrace.serving.runs import COMMANDS, STUDIES_AT_MOST, Runs, StartedRun, study_files

_LOOK_S = 0.5


class RunPages:
    """Studies below the folder, and the runs of this server."""

    def __init__(self, root: Path, access: Visitors, live: Live) -> None:
        self._root, self._access, self._live = root, access, live
        self._runs = Runs(root)

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [
            Route("/studies", self.show),
            Route("/studies/start", self.start, methods=["POST"]),
            Route("/runs/{number:int}", self.run),
            Route("/runs/{number:int}/stop", self.stop, methods=["POST"]),
            Route("/runs/{number:int}/resume", self.resume, methods=["POST"]),
            Route("/events/runs/{number:int}", self.events),
        ]

    def show(self, request: Request) -> Response:
        """Show the study files, and the runs that were started."""
        return pages.page(
            request, "studies.html.j2", "Studies", commands=COMMANDS,
            studies=listed(study_files(self._root), STUDIES_AT_MOST),
            runs=list(reversed(self._runs.started.values())),
            form_token=self._access.form_token, root=self._root,
        )  # fmt: skip

    async def start(self, request: Request) -> Response:
        """Start a study."""
        form = await self._access.checked_form(request)
        run = self._runs.start(form.get("study", ""), form.get("command", ""))
        return RedirectResponse(f"/runs/{run.number}", status_code=303)

    def run(self, request: Request) -> Response:
        """Show a run, live."""
        run = self._run_of(request)
        folder, pace = self._progress(run)
        return pages.page(
            request, "run.html.j2", f"Run of {run.study}", run=run, folder=folder, pace=pace,
            form_token=self._access.form_token,
        )  # fmt: skip

    def events(self, request: Request) -> Response:
        """Send how far a run is, until it has ended."""
        run = self._run_of(request)

        def look() -> Look:
            # Asked first: what is read after the end is complete.
            state = run.state
            folder, pace = self._progress(run)
            part = pages.fragment(
                "run_part.html.j2", run=run, folder=folder, pace=pace,
                form_token=self._access.form_token,
            )  # fmt: skip
            ended = state != "running"
            return Look({"run": part}, f"{state[:1].upper()}{state[1:]}" if ended else "", ended)

        return self._live.stream(look, _LOOK_S)

    async def stop(self, request: Request) -> Response:
        """Ask a run to end."""
        await self._access.checked_form(request)
        run = self._runs.stop(int(request.path_params["number"]))
        return RedirectResponse(f"/runs/{run.number}", status_code=303)

    async def resume(self, request: Request) -> Response:
        """Continue a run that was stopped."""
        await self._access.checked_form(request)
        run = self._runs.resume(int(request.path_params["number"]))
        return RedirectResponse(f"/runs/{run.number}", status_code=303)

    def _run_of(self, request: Request) -> StartedRun:
        run = self._runs.started.get(int(request.path_params["number"]))
        if run is None:
            raise UsageError(
                "This server did not start such a run.", hint="The list of results has all runs."
            )
        return run

    def _progress(self, run: StartedRun) -> tuple[ResultsFolder | None, Pace | None]:
        if not (self._root / run.results / "results.json").exists():
            return None, None
        folder = read_folder(self._root, run.results, anew=False)
        return folder, pace_of(folder)
