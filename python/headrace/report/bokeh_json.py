"""Figures as the JSON that Bokeh's script draws, written without importing Bokeh.

Bokeh for Python needs half a second of CPU time to define its classes and to check the few models
that a report draws. What is written here is what it writes for the same figure; the tests read it
with Bokeh, which checks every model and property. Only the models and properties that
`report/figures.py` needs are here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Model: TypeAlias = dict[str, Json]

DASHED: Json = [6]
_DASHES: dict[str, Json] = {
    "dashed": DASHED,
    "dotted": [2, 4],
    "dotdash": [2, 4, 6, 4],
    "dashdot": [6, 4, 2, 4],
}
_NAN: Json = {"type": "number", "value": "nan"}


def script() -> str:
    """Return Bokeh's script, which draws figures, for an inline script element."""
    package = find_spec("bokeh")
    assert package is not None and package.origin is not None
    file = Path(package.origin).parent / "server" / "static" / "js" / "bokeh.min.js"
    return f"{file.read_text(encoding='utf-8')}\nBokeh.set_log_level('error');"


@cache
def _version() -> str:
    return version("bokeh")


def field(name: str) -> Json:
    """Return a property whose values are a column of the source."""
    return {"type": "field", "field": name}


def value(constant: Json) -> Json:
    """Return a property that has the same value for every row of the source."""
    return {"type": "value", "value": constant}


def reference(model: Model) -> Json:
    """Return a reference to a model that stands earlier in the same figure."""
    return {"id": model["id"]}


class BokehFigure:
    """One figure in the making; its sources, marks and tools refer to each other by ids.

    `element` is the id of the element of the page that it is drawn in, and begins the ids of its
    models: no two figures of a page have models of the same id.
    """

    def __init__(
        self,
        element: str,
        title: str,
        x_title: str,
        y_title: str,
        *,
        height: int = 330,
        x_range: tuple[float, float],
        y_range: tuple[float, float] | Sequence[str],
        x_ticks: Sequence[float] | None = None,
    ) -> None:
        self._element = element
        self._models = 0
        self._height = height
        self._title = title
        self._x_range = self._range(x_range)
        self._y_range = self._range(y_range)
        self._x_axis = self._axis(x_title, self._ticker(x_ticks))
        rows = self._y_range["name"] == "FactorRange"
        self._y_axis = self._row_axis(y_title) if rows else self._axis(y_title, self._ticker(None))
        self._y_scale = self.model("CategoricalScale" if rows else "LinearScale")
        self._y_grid: dict[str, Json] = {}
        self._marks: list[Json] = []
        self._annotations: list[Json] = []
        self._tools: list[Json] = [self._zoom(), self.model("ResetTool"), self.model("SaveTool")]
        self._placed: set[Json] = set()

    def model(self, kind: str, **attributes: Json) -> Model:
        """Return a new model of this kind of Bokeh's."""
        self._models += 1
        made: Model = {"type": "object", "name": kind, "id": f"{self._element}-{self._models}"}
        if attributes:
            made["attributes"] = attributes
        return made

    def source(self, columns: Mapping[str, Sequence[object]], name: str | None = None) -> Model:
        """Return a table of data. Whisker and marks that use it are added to this figure."""
        entries: list[Json] = [
            [column, [_number(each) for each in values]] for column, values in columns.items()
        ]
        named: dict[str, Json] = {} if name is None else {"name": name}
        return self.model(
            "ColumnDataSource",
            **named,
            selected=self.model("Selection", indices=[], line_indices=[]),
            selection_policy=self.model("UnionRenderers"),
            data={"type": "map", "entries": entries},
        )

    def scatter(
        self,
        x: str,
        y: str,
        source: Model,
        *,
        size: float,
        marker: str = "circle",
        name: str | None = None,
        alpha: float = 1.0,
        look: Mapping[str, Json],
    ) -> Model:
        """Add a mark for each row; `look` has further properties of its lines and areas."""
        look = {"x": field(x), "y": field(y), "size": value(size), **look}
        if marker != "circle":
            look["marker"] = value(marker)
        alphas = [
            {f"{part}_alpha": value(each) for part in ("line", "fill", "hatch") if each < 1}
            for each in (alpha, 0.1, 0.2)
        ]
        return self._renderer("Scatter", source, name, look, alphas)

    def line(
        self,
        x: str,
        y: str,
        source: Model,
        *,
        colour: str,
        width: float,
        dash: str,
        name: str | None = None,
    ) -> Model:
        """Add a line through the rows."""
        look: dict[str, Json] = {
            **{"x": field(x), "y": field(y), "line_color": colour, "line_width": width},
        }
        if dash != "solid":
            look["line_dash"] = _DASHES[dash]
        alphas: list[dict[str, Json]] = [{}, {"line_alpha": 0.1}, {"line_alpha": 0.2}]
        return self._renderer("Line", source, name, look, alphas)

    def _renderer(
        self,
        kind: str,
        source: Model,
        name: str | None,
        look: Mapping[str, Json],
        alphas: Iterable[Mapping[str, Json]],
    ) -> Model:
        glyph, others, muted = (self.model(kind, **{**look, **alpha}) for alpha in alphas)
        named: dict[str, Json] = {} if name is None else {"name": name}
        made = self.model(
            "GlyphRenderer",
            **named,
            data_source=self._use(source),
            view=self.model("CDSView", filter=self.model("AllIndices")),
            glyph=glyph,
            nonselection_glyph=others,
            muted_glyph=muted,
        )
        self._marks.append(made)
        return made

    def _use(self, source: Model) -> Json:
        """Return the source where it is first used, and then a reference."""
        if source["id"] in self._placed:
            return reference(source)
        self._placed.add(source["id"])
        return source

    def whisker(
        self, source: Model, colour: str, width: float, base: str, *, rows: bool = False
    ) -> None:
        """Add an interval from `low` to `high` for each row; the source is also that of a mark."""
        head: dict[str, Json] = {"size": value(8), "line_color": value(colour)}
        across: dict[str, Json] = {"dimension": "width"} if rows else {}
        self._annotations.append(
            self.model(
                "Whisker",
                source=reference(source),
                lower=field("low"),
                lower_head=self.model("TeeHead", **head),
                upper=field("high"),
                upper_head=self.model("TeeHead", **head),
                base=field(base),
                **across,
                line_color=value(colour),
                line_width=value(width),
            )
        )

    def span(self, location: float, dimension: str, colour: str) -> None:
        """Add a dashed line across the figure; `dimension` is `width` or `height`."""
        self._annotations.append(
            self.model(
                "Span",
                location=_number(location),
                dimension=dimension,
                line_color=colour,
                line_dash=DASHED,
            )
        )

    def hover(self, marks: Sequence[Model], tooltip: str) -> None:
        """Add what is shown while the mouse is on one of these marks."""
        renderers: list[Json] = [reference(each) for each in marks]
        self._tools.append(
            self.model("HoverTool", renderers=renderers, tooltips=tooltip, sort_by=None)
        )

    def dotted_rows(self) -> None:
        """Draw the lines between rows dotted."""
        self._y_grid = {"grid_line_dash": _DASHES["dotted"]}

    def item(self) -> dict[str, object]:
        """Return what `bokeh.embed.json_item` returns for this figure."""
        # Sources are with the marks: those come before what refers to them.
        plot = self.model(
            "Figure",
            height=self._height,
            sizing_mode="stretch_width",
            x_range=self._x_range,
            y_range=self._y_range,
            x_scale=self.model("LinearScale"),
            y_scale=self._y_scale,
            title=self.model(
                "Title", text=self._title, text_color="#1a1a1a", text_font_size="14px"
            ),
            outline_line_color=None,
            # White, not transparent: Bokeh clears earlier drawings by painting over them.
            background_fill_color="#ffffff",
            border_fill_color="#ffffff",
            renderers=self._marks,
            toolbar=self.model(
                "Toolbar", tools=self._tools, logo=None, autohide=True, active_drag=None
            ),
            toolbar_location="above",
            left=[self._y_axis],
            below=[self._x_axis],
            center=[self._grid(0), self._grid(1), *self._annotations],
            min_border_right=14,
        )
        notifications = self.model("Notifications")
        document: dict[str, Json] = {
            "version": _version(),
            "title": "",
            "config": self.model("DocumentConfig", notifications=notifications),
            "roots": [plot],
        }
        names: dict[str, object] = {"target_id": self._element, "root_id": plot["id"]}
        return {**names, "doc": document, "version": _version()}

    def _range(self, wanted: tuple[float, float] | Sequence[str]) -> Model:
        if len(wanted) == 2 and not isinstance(wanted[0], str) and not isinstance(wanted[1], str):
            return self.model("Range1d", start=_number(wanted[0]), end=_number(wanted[1]))
        return self.model("FactorRange", factors=[str(each) for each in wanted])

    def _ticker(self, ticks: Sequence[float] | None) -> Model:
        if ticks is not None:
            return self.model("FixedTicker", ticks=[*ticks], minor_ticks=[])
        return self.model("BasicTicker", mantissas=[1, 2, 5])

    def _axis(self, title: str, ticker: Model) -> Model:
        return self._labelled(
            "LinearAxis", title, ticker=ticker, formatter=self.model("BasicTickFormatter")
        )

    def _row_axis(self, title: str) -> Model:
        return self._labelled(
            "CategoricalAxis",
            title,
            ticker=self.model("CategoricalTicker"),
            formatter=self.model("CategoricalTickFormatter"),
        )

    def _labelled(self, kind: str, title: str, **parts: Json) -> Model:
        label: dict[str, Json] = {"axis_label": title} if title else {}
        return self.model(
            kind,
            **parts,
            **label,
            axis_label_text_color="#333333",
            axis_label_text_font_size="13px",
            axis_label_text_font_style="normal",
            major_label_policy=self.model("AllLabels"),
            major_label_text_color="#333333",
            major_label_text_font_size="12px",
            axis_line_color="#888888",
            major_tick_line_color="#888888",
            minor_tick_line_color=None,
        )

    def _grid(self, dimension: int) -> Model:
        axis = self._y_axis if dimension else self._x_axis
        look = self._y_grid if dimension else {}
        return self.model(
            "Grid", dimension=dimension, axis=reference(axis), grid_line_color="#e6e6e6", **look
        )

    def _zoom(self) -> Model:
        """Return a tool that enlarges a part that the mouse has marked."""
        sides = ("left", "right", "top", "bottom")
        looks = self.model("AreaVisuals", fill_color="white", hover_fill_color="lightgray")
        overlay = self.model(
            "BoxAnnotation",
            syncable=False,
            line_color="black",
            line_alpha=1.0,
            line_width=2,
            line_dash=[4, 4],
            fill_color="lightgrey",
            fill_alpha=0.5,
            level="overlay",
            visible=False,
            **dict.fromkeys(sides, _NAN),
            **{f"{side}_units": "canvas" for side in sides},
            handles=self.model("BoxInteractionHandles", all=looks),
        )
        return self.model("BoxZoomTool", overlay=overlay)


def _number(given: object) -> Json:
    """Return a cell of a table; what JSON cannot say as a number is an object."""
    if isinstance(given, float):
        if math.isnan(given):
            return _NAN
        if math.isinf(given):
            return {"type": "number", "value": "+inf" if given > 0 else "-inf"}
        return float(given)
    assert given is None or isinstance(given, int | str)
    return given
