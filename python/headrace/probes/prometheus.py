"""Probe `prometheus`: series of a Prometheus server, or metrics of an exporter.

A URL that ends in `/metrics` is an exporter's: it is read at each interval. Any other is a
server's: it is asked once, after the last job, by `query_range` of its HTTP API.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from typing_extensions import override

from headrace.errors import HeadraceError
from headrace.probes import Watch
from headrace.probes.options import ProbeOptions
from headrace.probes.services import (
    MOST_BYTES,
    ClockOffset,
    Sample,
    ServiceOptions,
    ServiceProbe,
    steady_s,
    without_password,
)
from headrace.refusals import form
from headrace.system.authorities import REMEDY, trusted, why_not_trusted

_SELECTOR = re.compile(r'\s*([a-zA-Z_:][\w:]*)\s*(?:\{((?:\s*\w+\s*=\s*"[^"]*"\s*,?)*)\s*\})?\s*')
_LABEL = re.compile(r'(\w+)\s*=\s*"([^"]*)"')


class PrometheusProbeOptions(ServiceOptions):
    """Fields of `[probe.NAME]` with `kind = "prometheus"`."""

    address: str = Field(
        pattern=form("^https?://", "a URL that begins with http:// or https://"),
        description='URL of a server, "http://monitor:9090", or of an exporter, '
        '"http://node:9100/metrics"',
    )
    metrics: dict[str, str] = Field(
        min_length=1,
        description="a name for each metric, and its PromQL expression; of an exporter its name, "
        'with labels if wanted: node_network_receive_bytes_total{device="eth0"}',
    )
    units: dict[str, str] = Field(
        default_factory=dict[str, str], description="units of metrics, by the same names"
    )

    @field_validator("units")
    @classmethod
    def _of_metrics(cls, value: dict[str, str], info: Any) -> dict[str, str]:
        if unknown := set(value) - set(info.data.get("metrics", value)):
            raise ValueError(f"no such metric: {', '.join(sorted(unknown))}")
        return value


class PrometheusProbe(ServiceProbe):
    """Series by host: the label `instance`, or the exporter's own host."""

    kind: ClassVar[str] = "prometheus"
    Options: ClassVar[type[ProbeOptions] | None] = PrometheusProbeOptions
    options: PrometheusProbeOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._clock = ClockOffset()
        self._begin_s = steady_s()
        self._asked = True
        """Whether the server was asked for the values of the trial."""

    @property
    def _exporter(self) -> bool:
        return urlsplit(self.options.address).path.rstrip("/").endswith("/metrics")

    @override
    def start(self, watch: Watch) -> None:
        self._begin_s, self._asked = steady_s(), False
        if self._exporter:
            super().start(watch)
        else:
            self.reset()

    @override
    def stop(self, *, ask: bool = True) -> None:
        super().stop(ask=ask)
        if ask and not self._exporter and not self._asked:
            self._asked = True
            try:
                self.samples += self._ranges(self._begin_s, steady_s())
            except HeadraceError as error:
                self.lost, self.error = self.lost + 1, error.message

    @override
    def sample(self) -> list[dict[str, Any]]:
        if not self._exporter:
            self.stop()
        return super().sample()

    @override
    def ask(self) -> Iterable[Sample]:
        now_s = steady_s()
        return self._scraped() if self._exporter else self._ranges(now_s - 1, now_s)

    @override
    def clock(self) -> tuple[float, float] | None:
        return (self._clock.offset_s, self._clock.uncertainty_s) if self._clock.known else None

    # -- a server --

    def _ranges(self, begin_s: float, end_s: float) -> list[Sample]:
        try:
            return self._asked_ranges(begin_s, end_s)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            where = without_password(self.options.address)
            raise HeadraceError(f"{where}: no answer of Prometheus") from None

    def _asked_ranges(self, begin_s: float, end_s: float) -> list[Sample]:
        before_s = steady_s()
        found = self._api("query", query="time()")
        self._clock.add(before_s, steady_s(), float(found[1]), 0.001)
        samples: list[Sample] = []
        for metric, expression in self.options.metrics.items():
            ahead_s = self._clock.offset_s
            result = self._api(
                "query_range",
                query=expression,
                start=f"{begin_s + ahead_s:.3f}",
                end=f"{end_s + ahead_s:.3f}",
                step=f"{self.options.interval:g}",
            )
            unit = self.options.units.get(metric, "")
            for series in result:
                host = _host(series["metric"])
                for at_s, text in series["values"]:
                    if math.isfinite(value := float(text)):
                        at = self._clock.monotonic_s(float(at_s))
                        samples.append(Sample(at, host, metric, value, unit))
        return samples

    def _api(self, what: str, **parameters: str) -> Any:
        where = f"{self.options.address.rstrip('/')}/api/v1/{what}"
        answer = self._get(where, parameters)
        try:
            value: Any = json.loads(answer)
            if value["status"] == "success":
                return value["data"]["result"]
            problem = str(value["error"])
        except (ValueError, KeyError, TypeError):
            problem = "no answer of Prometheus"
        raise HeadraceError(
            f"{without_password(self.options.address)}: {problem}", hint="try it on its own page"
        )

    # -- an exporter --

    def _scraped(self) -> list[Sample]:
        from prometheus_client.parser import text_string_to_metric_families

        before_s = time.monotonic()
        text = self._get(self.options.address, {}).decode("utf-8", "replace")
        time_s = (before_s + time.monotonic()) / 2
        host = urlsplit(self.options.address).netloc.rpartition("@")[2]  # without a password
        wanted = {name: _selector(text) for name, text in self.options.metrics.items()}
        found: list[Sample] = []
        try:
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    for name, (metric, labels) in wanted.items():
                        # The parser ends names of counters in _total, also where the page does not.
                        named = sample.name in (metric, f"{metric}_total")
                        chosen = named and labels.items() <= sample.labels.items()
                        if chosen and math.isfinite(sample.value):
                            others = {k: v for k, v in sample.labels.items() if k not in labels}
                            place = " ".join([host, *others.values()])
                            unit = self.options.units.get(name, "")
                            found.append(Sample(time_s, place, name, sample.value, unit))
        except (ValueError, KeyError) as error:
            raise HeadraceError(
                f"{without_password(self.options.address)}: no metrics: {error}"
            ) from None
        return found

    def _get(self, url: str, parameters: Mapping[str, str]) -> bytes:
        import httpx  # most runs need none

        data, shown = bytearray(), without_password(self.options.address)
        timeout, begin_s = self.options.timeout, time.monotonic()
        try:
            # To load authorities takes more CPU time than to ask.
            verify = trusted() if url.startswith("https") else False
            with httpx.Client(timeout=timeout, trust_env=False, verify=verify) as client:
                with client.stream("GET", url, params=dict(parameters) or None) as answer:
                    for piece in answer.iter_bytes():
                        data += piece
                        if len(data) > MOST_BYTES:
                            raise HeadraceError(f"{shown} sends more than {MOST_BYTES} B")
                        if time.monotonic() - begin_s > timeout:
                            raise HeadraceError(f"{shown} is not done within {timeout:g} s")
                # Prometheus explains errors of a query in JSON.
                explained = answer.status_code in (400, 422) and not self._exporter
                if not answer.is_success and not explained:
                    raise _refused(url, answer)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if why := why_not_trusted(error):
                raise HeadraceError(
                    f"the certificate of {shown} is not trusted: {why}",
                    hint=REMEDY,
                ) from None
            said = f"{error or type(error).__name__}"
            raise HeadraceError(
                f"{shown} gives no answer: {said}",
                hint="check the address and the network",
            ) from None
        return bytes(data)


def _refused(url: str, answer: Any) -> HeadraceError:
    """Return the error of an answer that is none of Prometheus."""
    said = f"{without_password(url)} answers {answer.status_code} ({answer.reason_phrase})"
    if answer.is_redirect:
        there = without_password(str(answer.headers.get("location", "")))
        return HeadraceError(f"{said}: it leads to {there}", hint="name that address")
    if answer.status_code in (401, 403):
        return HeadraceError(
            said, hint="it wants a user that may read it: http://USER:PASSWORD@HOST:PORT"
        )
    if after := answer.headers.get("retry-after"):
        said += f"; it asks to be left alone for: {after} (Retry-After)"
    return HeadraceError(said, hint="a longer interval" if answer.status_code == 429 else None)


def _host(labels: Mapping[str, str]) -> str:
    """Return the host of a series; other labels tell apart series of one host."""
    others = [
        value for name, value in labels.items() if name not in ("__name__", "instance", "job")
    ]
    return " ".join([labels.get("instance", "all"), *others])


def _selector(text: str) -> tuple[str, dict[str, str]]:
    found = _SELECTOR.fullmatch(text)
    if found is None:
        raise HeadraceError(f'{text}: an exporter has only metrics: NAME or NAME{{label="value"}}')
    return found[1], dict(_LABEL.findall(found[2] or ""))
