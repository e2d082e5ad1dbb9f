"""Options that `headrace decide` and `headrace screen` have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.errors import FileProblem, StudyError

Within = Annotated[
    str, typer.Option(help='limits, such as "price <= 40000 EUR, efficiency >= 85 %"')
]
OffersFile = Annotated[
    Path | None,
    typer.Option(
        help="file with prices of hardware and electricity (default: the study's \\[offers] and "
        "the catalog's prices)"
    ),
]
Mix = Annotated[
    str,
    typer.Option(
        help='shares of the workloads, such as "scan=70, analysis=30" (default: equal shares)'
    ),
]


def shares_of(text: str) -> dict[str, float] | None:
    """Return the shares of a mix. Raises StudyError for a bad one."""
    shares: dict[str, float] = {}
    for part in text.split(",") if text.strip() else []:
        name, separator, share = part.partition("=")
        try:
            value = float(share.strip().removesuffix("%"))
        except ValueError:
            value = -1.0
        if not separator or not name.strip() or not 0 <= value < float("inf"):
            raise _bad_mix(part.strip(), "not a share of a workload")
        if name.strip() in shares:
            raise _bad_mix(text, f"two shares of workload {name.strip()}")
        shares[name.strip()] = value
    total = sum(shares.values())
    if shares and not 0 < total < float("inf"):
        raise _bad_mix(text, "all shares are 0" if total == 0 else "the shares are too large")
    return shares or None


def _bad_mix(given: str, problem: str) -> StudyError:
    allowed = '"scan=70, analysis=30"'
    return StudyError([FileProblem(Path("command line"), 0, "--mix", given, problem, allowed)])
