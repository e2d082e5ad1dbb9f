"""Base layer: distinguishable colours, markers and dashes for reports and plots.

Plots of traces and of profiles use them too. Colours: Okabe and Ito, "Color Universal Design", 2008
(yellow only as a fill: it is too light for lines on white).
"""

from __future__ import annotations

import logging

BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, YELLOW, BLACK, GREY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#F0E442",
    "#000000",
    "#7A7A7A",
)
CURVE_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY)
CURVE_MARKERS = (
    "circle",
    "square",
    "triangle",
    "diamond",
    "inverted_triangle",
    "hex",
    "star",
    "plus",
)
CURVE_SIGNS = ("●", "■", "▲", "◆", "▼", "⬢", "★", "✚")
CURVE_DASHES = ("solid", "dashed", "solid", "dashdot", "dotted", "solid", "dotdash", "dashed")
LEDGER_COLOURS = {
    "on_cpu": GREEN,
    "wait_cpu": YELLOW,
    "wait_block": VERMILLION,
    "wait_network": BLUE,
    "other": "#B0B0B0",
}
# At least 4.5 : 1 against its bar.
LEDGER_TEXT = {
    "on_cpu": "#000000",
    "wait_cpu": "#1a1a1a",
    "wait_block": "#000000",
    "wait_network": "#ffffff",
    "other": "#1a1a1a",
}


def quiet_matplotlib() -> None:
    """Keep matplotlib from saying that it has no folder for its cache, which pictures do not need:
    call this before it is imported."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
