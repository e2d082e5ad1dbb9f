"""The what-if page: a job on other storage, simulated while it is looked at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.catalog import names
from headrace.decision.candidates import ASSUMED_MODEL_ERROR
from headrace.errors import RefusedError, as_word
from headrace.offers import catalog_price
from headrace.profiles.shared_files import shared_files_note
from headrace.report.numbers import number
from headrace.serving import pages
from headrace.serving.access import Visitors
from headrace.serving.curves import WhatIfCurve, short
from headrace.serving.folders import ResultsFolder, named_folder, results_folders
from headrace.serving.live import Live, Look
from headrace.serving.simulating import SimulatedPoint
from headrace.serving.what_if_site import offered_sites
from headrace.serving.what_if_study import (
    BUILT_IN_TITLES,
    CACHES,
    FILESYSTEMS,
    LINKS,
    RAID,
    WHERE,
    Question,
    WrongValueError,
    question_of,
    recorded_profiles,
    study_of,
    workloads_of_results,
)
from headrace.serving.worker import WhatIfRun, WhatIfWorker
from headrace.units import format_share
from headrace.whole_file import write_new

_LOOK_S = 0.1
_OFFERED_AT_MOST = 200
"""Choices of a group in a list of the form."""
_NAME = re.compile(r"[\w-][\w.-]{0,79}", re.ASCII)
BAND_TEXT = (
    f"The band is ± {100 * ASSUMED_MODEL_ERROR:.0f} %: the root mean square error of the model "
    "that headrace decide assumes where nothing was compared. About one error in three is larger; "
    "its 95 % interval is twice as wide. The price has the band of its rate. Whole jobs that were "
    "measured and simulated (docs/accuracy.md) differ less. For the error here, save the study, "
    "run it, and use headrace compare --model."
)


class WhatIfPages:
    """One process simulates; questions are answered one after the other."""

    def __init__(self, root: Path, access: Visitors, live: Live, worker: WhatIfWorker) -> None:
        self._root, self._access, self._live, self._worker = root, access, live, worker
        self._crosses = LastPoints()

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [
            Route("/what-if", self.show),
            Route("/events/what-if", self.events),
            Route("/what-if/save", self.save, methods=["POST"]),
        ]

    def show(self, request: Request) -> Response:
        """Show the form, and the place of the answer once something was asked."""
        asked = "ask" in request.query_params
        question = question_of(request.query_params)
        jobs, more_jobs = offered(self._jobs(), question.job)
        sites, more_sites = offered(offered_sites(self._root), question.site)
        return pages.page(
            request, "what_if.html.j2", "What if", question=question, asked=asked,
            study=study_of(question, self._root).text if asked else "",
            query=urlencode(question.fields()), form_token=self._access.form_token,
            job_groups=jobs, drives=_same(names("drives")), raids=_same(RAID),
            filesystems=_same(FILESYSTEMS), wheres=list(WHERE.items()), networks=_same(LINKS),
            site_groups=sites, machines=_same(names("nodes")), caches=list(CACHES.items()),
            left_out=[("Job", more_jobs), ("Site", more_sites)],
        )  # fmt: skip

    def events(self, request: Request) -> Response:
        """Send the curves, as their points come."""
        question = question_of(request.query_params)
        study = study_of(question, self._root)
        measured, title = self._measured(question)
        jobs = question.nodes * question.most_slots
        note = shared_files_note(study.text, study.base, jobs)
        run = self._worker.ask(study.text, str(study.base))

        def look() -> Look:
            # Before its points are read: those of a run that ends meanwhile are in the next look.
            ended = run.ended
            part = _answer(question, run, measured, title, note)
            count = sum(not point.problem for point in run.points)
            said = f"{count} point{'' if count == 1 else 's'} simulated." if ended else ""
            return Look({"answer": part}, run.problem or said, ended)

        return self._live.stream(look, _LOOK_S, run.stop)

    async def save(self, request: Request) -> Response:
        """Write the study file of a question into the folder; no file is overwritten."""
        form = await self._access.checked_form(request)
        question = question_of(form)
        name = form.get("name", "").removesuffix(".toml")
        if not _NAME.fullmatch(name):
            raise WrongValueError(
                f"{name}: not a name for a study file",
                hint="Allowed: letters a to z, digits, `_`, `-` and `.`, 80 at most, not first `.`",
            )
        file = self._root / f"{name}.toml"
        text = study_of(question, self._root).text
        try:
            write_new(file, text)
        except FileExistsError:
            raise RefusedError(f"{file} exists", hint="Go back and give another name.") from None
        return pages.page(
            request, "saved.html.j2", "Saved", file=file, word=as_word(file),
            query=urlencode({**question.fields(), "ask": "1"}),
        )  # fmt: skip

    def _jobs(self) -> list[tuple[str, list[tuple[str, str]]]]:
        studies = [
            (f"study/{workload}/{folder.name}", f"{workload} of {folder.title} ({folder.name})")
            for folder in results_folders(self._root, counted=False)
            if not folder.damage
            for workload in workloads_of_results(folder.path)
        ]
        recorded = [(f"file/{name}", name) for name in recorded_profiles(self._root)]
        return [
            ("Built in", [(f"builtin/{name}", text) for name, text in BUILT_IN_TITLES.items()]),
            ("Of results", studies),
            ("Recorded here", recorded),
            ("Profiles of the catalog", [(f"catalog/{name}", name) for name in names("profiles")]),
        ]

    def _measured(self, question: Question) -> tuple[list[MeasuredPoint], str]:
        """Return the valid measured points of the results that the job is of, with as many nodes
        and the same page cache, and what they are."""
        kind, _, rest = question.job.partition("/")
        workload, _, name = rest.partition("/")
        if kind != "study":
            return [], ""
        folder = named_folder(self._root, name)
        if folder.engine == "simulate":
            return [], ""
        found, how = self._crosses.of(folder, workload, question.nodes, question.cache)
        nodes = "1 node" if question.nodes == 1 else f"{question.nodes} nodes"
        return found, f"{how}: valid trials of {folder.title} with {nodes}, {question.cache}"


MeasuredPoint = tuple[float, float | None, float | None, float | None]
"""Slots of a node, events per second, efficiency, Wh per job."""


class LastPoints:
    """The measured points of the last question: the next one is often of the same job, and to read
    20 000 trials takes seconds."""

    def __init__(self) -> None:
        self._last: tuple[tuple[object, ...], tuple[list[MeasuredPoint], str]] | None = None

    def of(
        self, folder: ResultsFolder, workload: str, nodes: int, cache: str
    ) -> tuple[list[MeasuredPoint], str]:
        """Return what `measured_points` does."""
        key = (*folder.fingerprint, workload, nodes, cache)
        last = self._last
        if last is None or last[0] != key:
            last = key, measured_points(folder.path, workload, nodes, cache)
            self._last = last
        return last[1]


def measured_points(
    results: Path, workload: str, nodes: int, cache: str
) -> tuple[list[MeasuredPoint], str]:
    """Return the valid trials of a workload on so many nodes, with a cold or warm page cache, and
    whether they are measured or emulated, with what differs between them."""
    from headrace.analysis.read import read

    found: list[MeasuredPoint] = []
    how: set[str] = set()
    levels: dict[str, set[str]] = {}
    for row in read(results).trials.to_dict("records"):
        same = (row["workload"], row["nodes"], row["cache"]) == (workload, nodes, cache)
        if row["valid"] and same:
            how.add(row["provenance"])
            for name, level in row["levels"].items():
                levels.setdefault(name, set()).add(str(level))
            rate, efficiency, wh = (
                row["metrics"].get(name)
                for name in ("events_per_s", "efficiency", "energy_wh_per_job")
            )
            found.append((float(row["slots"]), rate, efficiency, wh))
    several = [name for name, each in levels.items() if name != "slots" and len(each) > 1]
    varied = f" with several levels of {', '.join(several)}" if several else ""
    return found, f"{' and '.join(sorted(how))}{varied}"


_Groups = list[tuple[str, list[tuple[str, str]]]]
"""Choices of a list by group: values and titles."""


def offered(groups: _Groups, chosen: str) -> tuple[_Groups, list[str]]:
    """Return the choices of a list, and what is left out of each group.

    What was chosen is always among them: the browser would choose another one instead.
    """
    shown: _Groups = []
    more: list[str] = []
    for group, every in groups:
        kept = [each for n, each in enumerate(every) if n < _OFFERED_AT_MOST or each[0] == chosen]
        shown.append((group, kept))
        if len(kept) < len(every):
            more.append(f"{group}: {len(every) - len(kept)} more")
    if not any(value == chosen for _, kept in shown for value, _ in kept):
        shown.insert(0, ("Chosen", [(chosen, chosen.partition("/")[2])]))
    return shown, more


def _same(values: Sequence[str]) -> list[tuple[str, str]]:
    return [(value, value) for value in values]


def _answer(
    question: Question, run: WhatIfRun, measured: list[MeasuredPoint], title: str, note: str
) -> str:
    good = [point for point in run.points if not point.problem]
    price, price_title, price_text = _price(question)
    crosses = [
        [(each[0], value) for each in measured if (value := each[number]) is not None]
        for number in (1, 2, 3)
    ]
    error = (1 - ASSUMED_MODEL_ERROR, 1 + ASSUMED_MODEL_ERROR)
    curves = [
        WhatIfCurve("Events per second", _of(good, "events_per_s"), crosses[0], error),
        WhatIfCurve("Job efficiency", _of(good, "efficiency"), crosses[1], error, 1.0),
        WhatIfCurve("Wh per job", _of(good, "wh_per_job"), crosses[2], error),
    ]
    if price is not None:
        paid = [(x, price * 1000 / y) for x, y in _of(good, "events_per_s") if y]
        # A rate that is 15 % lower is a price that is 18 % higher.
        curves.append(WhatIfCurve(price_title, paid, (), (1 / error[1], 1 / error[0])))
    return pages.fragment(
        "what_if_part.html.j2", problem=run.problem, hint=run.hint,
        curves=[curve for curve in curves if curve.points], measured=title if measured else "",
        note=note, band_text=BAND_TEXT, price_text=price_text, price_title=price_title,
        rows=[_row(point, price) for point in run.points], ended=run.ended,
    )  # fmt: skip


def _of(points: Sequence[SimulatedPoint], name: str) -> list[tuple[float, float]]:
    return [
        (float(point.slots), value)
        for point in points
        if (value := getattr(point, name)) is not None
    ]


def _row(point: SimulatedPoint, price: float | None) -> dict[str, object]:
    rate = point.events_per_s
    paid = price * 1000 / rate if price is not None and rate else None
    return {
        "slots": point.slots,
        "rate": "–" if rate is None else number(rate),
        "efficiency": "–" if point.efficiency is None else format_share(point.efficiency, 1),
        "wh": "–" if point.wh_per_job is None else short(point.wh_per_job),
        "price": "–" if paid is None else short(paid),
        "problem": point.problem,
    }


def _price(question: Question) -> tuple[float | None, str, str]:
    """Return the price of all drives, its heading, and where it comes from."""
    found = catalog_price(question.drive)
    if found is None:
        return None, "Price of drives", f"The catalog has no price of {question.drive}."
    each, count = float(str(found["price"])), question.drives_in_all
    unit = f"{found['currency']}"
    return (
        each * count,
        f"{unit} of drives per 1000 events/s",
        f"Price: {count} × {each:g} {unit} ({found['date']}), drives alone.",
    )
