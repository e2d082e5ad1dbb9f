"""Meter `wattsup`: a Watts Up? Pro on a serial line (115200 baud, USB).

Commands and answers are packets `#C,S,n,field,…;`. `#L,W,3,E,,1;` starts logging to the computer
once a second; each answer `#d,-,18,W,V,A,…;` has tenths of watts first. `_` is a value that the
meter does not measure.
"""

from __future__ import annotations

import time
from typing import ClassVar

import serial
from pydantic import Field

from headrace.meters import Meter, MeterChannel, MeterError, MeterOptions, Reading
from headrace.system.waiting import remaining

_ACCURACY = (0.015, "Watts Up? data sheet: 1.5 % plus 3 counts of 0.1 W")
_BAUD = 115_200
_LONGEST_PACKET_BYTES = 512


class WattsUpOptions(MeterOptions):
    """Fields of `[meter.NAME]` with `kind = "wattsup"`."""

    device: str = Field("/dev/ttyUSB0", min_length=1, description="the serial line")


class WattsUp(Meter):
    """The meter's power, once a second."""

    kind: ClassVar[str] = "wattsup"
    Options: ClassVar[type[MeterOptions]] = WattsUpOptions
    options: WattsUpOptions
    _line: serial.Serial | None = None
    _rest: bytes = b""
    """The begin of a packet that is not yet complete."""

    def channels(self) -> tuple[MeterChannel, ...]:
        """Return the outlet. 3 counts are as a resolution of 0.6 W."""
        return (self.channel("power", "node", 1.0, _ACCURACY, resolution_w=0.6),)

    def read(self) -> list[Reading]:
        """Return the newest power; wait for one if none has come."""
        line = self._opened()
        try:
            for _ in remaining(2.5):
                # All bytes that are there: a call per byte is most of the CPU time of a reading.
                self._rest += line.read(max(1, line.in_waiting))
                now_s = time.monotonic()
                *packets, self._rest = self._rest[-_LONGEST_PACKET_BYTES:].split(b";")
                # Packets that came while nobody read are older than the time of this reading; the
                # end of the line is still to come.
                if packets and len(self._rest) + line.in_waiting <= len(b"\r\n"):
                    fields = packets[-1].decode("ascii", "replace").strip().split(",")
                    if fields[0].endswith("#d"):
                        return [Reading("power", now_s, power_w=self._power_w(fields))]
        except (serial.SerialException, OSError) as error:
            raise MeterError(f"{self.options.device}: the line is gone: {error}") from None
        raise MeterError(
            f"{self.options.device}: no answer of a Watts Up? Pro",
            hint="check that it is this line, and that the meter has power",
        )

    def close(self) -> None:
        """Stop the logging to the line and close it."""
        line, self._line, self._rest = self._line, None, b""
        if line is not None:
            try:
                line.write(b"#L,W,0;")
            except (serial.SerialException, OSError):
                pass
            finally:
                line.close()

    def _opened(self) -> serial.Serial:
        if self._line is None:
            device = self.options.device
            try:
                line = serial.Serial(device, _BAUD, timeout=1.5, write_timeout=1.0)
                self._line = line
                line.write(b"#L,W,3,E,,1;")
            except (serial.SerialException, OSError, ValueError) as error:
                number = getattr(error, "errno", None)
                hint = "check the name of the serial line"
                if number == 13:
                    hint = "join the group of serial lines (usermod -a -G dialout USER), or be root"
                raise MeterError(f"{device} cannot be opened: {error}", hint=hint) from None
        return self._line

    def _power_w(self, fields: list[str]) -> float:
        try:
            return int(fields[3]) / 10
        except (IndexError, ValueError):
            raise MeterError(f"{self.options.device}: not a packet of watts: {fields}") from None
