"""What the emulated drives of a target report about a trial."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headrace.errors import HeadraceError
from headrace.targets import Location


def emulator_reports(location: Location) -> list[dict[str, Any]]:
    """Return the activity and completion delays of a target's emulated drives since their reset.

    The report of a drive whose process has died contains the error.
    """
    found: list[dict[str, Any]] = []
    for device in location.emulated:
        try:
            report = device.report()
        except HeadraceError as error:
            found.append({"device": device.name, "error": error.message})
        else:
            found.append({"device": device.name, **asdict(report), "late_share": report.late_share})
    return found


def with_service(
    reports: list[dict[str, Any]], device: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """Return the reports with the mean time per request, `service_ns_mean`.

    It comes from the kernel's device counters, or else from the time that the drive was busy.
    """
    found: list[dict[str, Any]] = []
    for report in reports:
        if "error" not in report:
            service_s, requests = report["busy_s"], report["reads"] + report["writes"]
            if device is not None and device["requests_read"] + device["requests_write"]:
                service_s = device["read_latency_s"] + device["write_latency_s"]
                requests = device["requests_read"] + device["requests_write"]
            report = {**report, "service_ns_mean": 1e9 * service_s / max(requests, 1)}
        found.append(report)
    return found
