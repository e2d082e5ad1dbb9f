"""Read the text file that another meter's logger writes: header, times, and columns of power."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from headrace.meters import ENERGY_UNITS_J, POWER_UNITS_W, MeterError
from headrace.text_file import decoded, encoding_of

SEPARATORS = (",", ";", "\t", "|")

_HEAD_BYTES = 1 << 18
_TAIL_BYTES = 1 << 24
"""Of a longer log, the end is read: about four days of two channels at one row per second."""

_EMPTY = {"", "-", "--", "---", "nan", "n/a", "na", "null", "none", "_", "ovf"}
"""What loggers write where they have no value."""

_WITH_UNIT = re.compile(r"([+-]?[0-9.,]+(?:[eE][+-]?[0-9]+)?)\s*([^\d\s].*)?")
_COMMA_DECIMAL = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d*)?(?:[eE][+-]?\d+)?")
"""Dots separate thousands; `12.5` is a number of another logger."""
_UNITS = (*POWER_UNITS_W, *ENERGY_UNITS_J, "VA", "kVA", "µW", "µJ")
_IN_HEADING = re.compile(rf"(?:^|[\s(\[_/])({'|'.join(_UNITS)})(?:[\s)\]]|$)")

_UNIX_S = 1e8
"""A number of seconds above this (1973) is a Unix time, one below counts from the log's begin."""
_UNIX_MS = 1e11


@dataclass(frozen=True)
class LogFormat:
    """How a log is written."""

    file: str
    columns: Mapping[str, str]
    """Column -> unit."""
    time: Sequence[str]
    """Columns of the time, joined by a space; empty for the first column."""
    time_format: str | None
    zone: str | None
    """Time zone of times without one; None for that of this machine."""
    decimal: str = "."


@dataclass
class PowerLog:
    """The rows of a log."""

    elapsed: bool = False
    """Whether times count from the begin of the log; otherwise they are Unix times."""
    times_s: list[float] = field(default_factory=list[float])
    values: dict[str, list[float | None]] = field(default_factory=dict[str, "list[float | None]"])
    """By column, in its unit; None where the row has no value."""
    modified_s: float = 0.0
    """When the file was last written, as a Unix time."""

    @property
    def interval_s(self) -> float:
        """Return the median time between rows."""
        steps = sorted(b - a for a, b in zip(self.times_s, self.times_s[1:], strict=False))
        return max(steps[len(steps) // 2], 1e-3) if steps else 1.0


def read_log(form: LogFormat) -> PowerLog:
    """Return the rows of a log, of a long one the last. Raises MeterError."""
    path = Path(form.file)
    try:
        modified_s, size = path.stat().st_mtime, path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            # Lines of UTF-16 have no end that a byte tells.
            if size > _HEAD_BYTES + _TAIL_BYTES and not _is_utf_16(head):
                file.seek(size - _TAIL_BYTES)
                file.readline()
                rest = file.read()
                whole = False
            else:
                rest, whole = file.read(), True
    except OSError as error:
        raise MeterError(
            f"the log {path} cannot be read: {error.strerror}",
            hint="its logger must write it while jobs run; allow this user to read it",
        ) from None
    lines = _lines(head + rest if whole else head)
    header = _Header.of(lines, form)
    first = header.line + 1
    number = first + 1
    if not whole:
        lines, first, number = _lines(rest), 0, 0
    return _Rows(form, header, PowerLog(modified_s=modified_s)).read(lines[first:], number)


def _is_utf_16(text: bytes) -> bool:
    return encoding_of(text[:_HEAD_BYTES]).startswith("utf-16")


def _lines(text: bytes) -> list[str]:
    """Return the complete lines: the last may still be written to."""
    try:
        characters = text.decode("utf-8-sig")
    except UnicodeDecodeError:
        characters = text.decode("latin-1")
    if _is_utf_16(text):
        characters = decoded(text)
    lines = characters.replace("\r\n", "\n").split("\n")
    return lines[:-1]


def _cells(line: str, separator: str) -> list[str]:
    """Return the cells of a line. One between quotes can hold the separator."""
    if '"' not in line:
        return [cell.strip() for cell in line.split(separator)]
    try:
        cells = next(csv.reader([line], delimiter=separator, skipinitialspace=True))
    except csv.Error:
        cells = line.split(separator)
    return [cell.strip().strip('"').strip() for cell in cells]


@dataclass(frozen=True)
class _Header:
    """The line that names the columns."""

    line: int
    separator: str
    names: list[str]
    time: tuple[int, ...]
    """Numbers of the columns of the time."""

    @classmethod
    def of(cls, lines: Sequence[str], form: LogFormat) -> _Header:
        """Find the first line that has all the columns. Raises MeterError."""
        needed = [*form.columns, *form.time]
        fewest: tuple[int, list[str], list[str]] | None = None
        for index, line in enumerate(lines):
            for separator in SEPARATORS:
                names = _cells(line, separator)
                lacking = [name for name in needed if name not in names]
                if not lacking:
                    found = tuple(names.index(name) for name in form.time or (names[0],))
                    _check_units(names, form)
                    return cls(index, separator, names, found)
                if len(names) > 1 and (fewest is None or len(lacking) < fewest[0]):
                    fewest = len(lacking), lacking, names
        if fewest is None:
            raise MeterError(
                f"the log {form.file} has no header with {', '.join(needed)}",
                hint="the logger must write the names of the columns, separated by , ; | or tab",
            )
        raise MeterError(
            f"the log {form.file} has no column {', '.join(fewest[1])}",
            hint=f"columns of its header: {', '.join(fewest[2])}",
        )


def _check_units(names: Sequence[str], form: LogFormat) -> None:
    """Refuse a unit that contradicts the column's heading. Raises MeterError."""
    for name, unit in form.columns.items():
        match = _IN_HEADING.search(name)
        if match is not None:
            _same_unit(match.group(1), unit, f"the heading of column {name}", form.file)


def _same_unit(written: str, stated: str, where: str, file: str) -> None:
    if written.replace("µ", "u") != stated.replace("µ", "u"):
        raise MeterError(
            f"the log {file}: {where} says {written}, `columns` says {stated}",
            hint="units must not be mixed up: state the one that the logger writes",
        )


@dataclass
class _Rows:
    """Reads rows; raises MeterError for the first that is not as the format says."""

    form: LogFormat
    header: _Header
    log: PowerLog
    _fold: int = 0
    _last: datetime | None = None
    _zone: ZoneInfo | None = None

    def read(self, lines: Sequence[str], first_line: int) -> PowerLog:
        log, form = self.log, self.form
        if form.zone is not None:
            self._zone = ZoneInfo(form.zone)
        numbers = {name: self.header.names.index(name) for name in form.columns}
        log.values = {name: [] for name in numbers}
        for index, line in enumerate(lines):
            cells = _cells(line, self.header.separator)
            if len(cells) <= max(self.header.time) or cells == self.header.names:
                continue  # blank, a remark of the logger, or its header again after a restart
            where = (
                f"the log {form.file}, line {first_line + index}"
                if first_line
                else (f"the log {form.file}, row {line[:60]!r}")
            )
            text = " ".join(cells[column] for column in self.header.time)
            log.times_s.append(self._time_s(text, where))
            for name, column in numbers.items():
                cell = cells[column] if column < len(cells) else ""
                log.values[name].append(self._value(cell, form.columns[name], where))
        if not log.times_s:
            raise MeterError(
                f"the log {form.file} has no rows yet", hint="start its logger before the study"
            )
        return log

    def _value(self, text: str, unit: str, where: str) -> float | None:
        if text.lower() in _EMPTY:
            return None
        match = _WITH_UNIT.fullmatch(text)
        if match is None:
            raise MeterError(f"{where}: {text!r} is not a number")
        number, written = match.groups()
        if written is not None:
            _same_unit(written, unit, f"the value {text!r}", self.form.file)
        if self.form.decimal == ",":
            if not _COMMA_DECIMAL.fullmatch(number):
                hint = 'state decimal = "."' if "." in number else None
                problem = f'{where}: {text!r} is not a number with decimal = ","'
                raise MeterError(problem, hint=hint)
            number = number.replace(".", "").replace(",", ".")
        try:
            value = float(number)
        except ValueError:
            hint = 'state decimal = ","' if "," in number else None
            raise MeterError(f"{where}: {text!r} is not a number", hint=hint) from None
        return value if math.isfinite(value) else None

    def _time_s(self, text: str, where: str) -> float:
        """Return Unix time, or seconds from the log's begin."""
        form, log = self.form, self.log
        if form.time_format is None:
            try:
                number = float(text.replace(",", ".") if form.decimal == "," else text)
            except ValueError:
                pass
            else:
                elapsed = number < _UNIX_S
                if log.times_s and elapsed != log.elapsed:
                    raise MeterError(f"{where}: time {text!r} is not of the kind of the others")
                log.elapsed = elapsed
                return number / 1000 if number > _UNIX_MS else number
        return self._date(text, where).timestamp()

    def _date(self, text: str, where: str) -> datetime:
        form = self.form
        try:
            if form.time_format is not None:
                found = datetime.strptime(text, form.time_format)
            else:
                found = datetime.fromisoformat(text)
        except ValueError:
            given = "" if form.time_format is None else f" of the form {form.time_format}"
            raise MeterError(
                f"{where}: {text!r} is not a time{given}",
                hint='state `time` (the column, or ["Date", "Time"]) and time_format, such as '
                '"%d.%m.%Y %H:%M:%S"',
            ) from None
        if found.year == 1900:
            raise MeterError(
                f"{where}: {text!r} has no date",
                hint='name the column of the date, too: time = ["Date", "Time"]',
            )
        return found if found.tzinfo is not None else self._local(found)

    def _local(self, found: datetime) -> datetime:
        """Return a local time with its zone; an hour that comes twice is told by the order."""
        if self._last is not None and found < self._last - timedelta(minutes=30):
            self._fold = 1
        self._last = found
        return found.replace(tzinfo=self._zone, fold=self._fold)
