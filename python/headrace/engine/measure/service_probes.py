"""Probes of monitoring services in a trial: `[probe.NAME]` of the study, for all nodes together.

A service that fails is a failed probe of the record, never the end or the verdict of a trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace import probes as probe_package
from headrace.engine.measure.node_probes import TrialSamples
from headrace.errors import Problem, describe
from headrace.probes import Watch
from headrace.probes.services import ServiceProbe
from headrace.study.model import NamedPlugin, Study


def service_of(part: NamedPlugin) -> ServiceProbe:
    """Return a probe of a study; nothing is opened."""
    made = probe_package.service_kinds()[part.kind](part.options)  # pyright: ignore[reportCallIssue]
    if not isinstance(made, ServiceProbe):
        raise TypeError(f"probe {part.kind} has options and asks no service")
    return made


def service_problems(study: Study) -> list[Problem]:
    """Return what is missing to ask the services of a study."""
    return [problem for part in study.probes.values() for problem in service_of(part).check()]


@dataclass
class ServiceProbes:
    """The services of one trial, asked from just before the release to the end of its jobs."""

    parts: Mapping[str, NamedPlugin]
    _probes: dict[str, ServiceProbe] = field(default_factory=dict[str, ServiceProbe])
    _failed: dict[str, str] = field(default_factory=dict[str, str])

    def start(self, watch: Watch) -> None:
        """Start to ask."""
        for name, part in self.parts.items():
            series = f"{part.kind}-{name}"
            try:
                probe = service_of(part)
                probe.start(watch)
            except Exception as error:
                self._failed[series] = f"at its start: {describe(error)}"
            else:
                self._probes[series] = probe

    def stop(self) -> None:
        """End the threads, asking nothing more: the trial has ended. Safe to call twice."""
        for probe in self._probes.values():
            probe.stop(ask=False)

    def finish(self, samples: TrialSamples, release_s: float) -> None:
        """Add series, totals and failures to those of the other probes."""
        for series, probe in self._probes.items():
            try:
                probe.stop()
                rows = probe.sample()
                totals = probe.finish()
            except Exception as error:
                self._failed[series] = describe(error)
                continue
            samples.series[series] = [{**row, "time_s": row["time_s"] - release_s} for row in rows]
            samples.totals[series] = totals
        samples.failed.update(self._failed)
