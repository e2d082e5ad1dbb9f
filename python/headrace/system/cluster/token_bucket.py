"""Base layer: pyroute2's token bucket (tc-tbf(8)), with rates above 34 Gb/s.

pyroute2 0.9 writes and reads the rate as 32 bits of bytes per second. The kernel takes 64 bits and
the burst in bytes from attributes of their own. Importing this module takes up to a second.
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

nla: Any = importlib.import_module("pyroute2.netlink").nla
_plugins: Any = importlib.import_module("pyroute2.netlink.rtnl.tcmsg").plugins
_its_own: Any = importlib.import_module("pyroute2.netlink.rtnl.tcmsg.sched_tbf")
_ticks: Any = importlib.import_module("pyroute2.netlink.rtnl.tcmsg.common")
_RATE_MAX = 0xFFFFFFFF
_ETHERNET = 1
"""TC_LINKLAYER_ETHERNET: the kernel computes with the rate and needs no table of times."""


class _Parameters(nla):
    """struct tc_tbf_qopt."""

    fields = _its_own.options.tbf_parms.fields


class _Options(nla):
    """TCA_TBF_… of linux/pkt_sched.h."""

    nla_map = (
        ("TCA_TBF_UNSPEC", "none"),
        ("TCA_TBF_PARMS", "parameters"),
        ("TCA_TBF_RTAB", "hex"),
        ("TCA_TBF_PTAB", "hex"),
        ("TCA_TBF_RATE64", "uint64"),
        ("TCA_TBF_PRATE64", "uint64"),
        ("TCA_TBF_BURST", "uint32"),
    )

    parameters = _Parameters


def _attributes(asked: dict[str, int]) -> dict[str, object]:
    rate, burst = asked["rate"], asked["burst"]
    parameters = {
        "rate": min(rate, _RATE_MAX),
        "rate___reserved": _ETHERNET,
        "limit": asked["limit"],
        "buffer": round(burst / rate * 1e6 * _ticks.tick_in_usec),
    }
    return {
        "attrs": [
            ("TCA_TBF_PARMS", parameters),
            ("TCA_TBF_RATE64", rate),
            ("TCA_TBF_BURST", burst),
        ]
    }


def register() -> None:
    """Let pyroute2 in this process write and read token buckets by this module."""
    _plugins["tbf"] = SimpleNamespace(
        parent=_its_own.parent,
        options=_Options,
        get_parameters=_attributes,
        fix_request=_its_own.fix_request,
    )


def described(options: Any) -> dict[str, int]:
    """Return the rate and sizes of a token bucket that the kernel described."""
    parameters = options.get_attr("TCA_TBF_PARMS")
    rate = options.get_attr("TCA_TBF_RATE64") or parameters["rate"]
    return {
        "rate_bytes_per_s": rate,
        "burst_bytes": round(seconds(parameters["buffer"]) * rate),
        "limit_bytes": parameters["limit"],
    }


def seconds(ticks: int) -> float:
    """Return the time of a number of ticks of the kernel's packet schedulers."""
    return ticks / _ticks.tick_in_usec * 1e-6
