"""Where common power distribution units (PDUs) have their active power: SNMP objects by maker.

Each number is from the maker's MIB, whose name is in `source`; the accuracies are assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PduObject:
    """An object of active power."""

    oid: str
    """With `{pdu}` for the number of the PDU in its chain, `{number}` for outlet or branch."""
    watts: float = 1.0
    """Of one count."""
    digits_oid: str | None = None
    """Object that tells how many decimal digits the value has."""


@dataclass(frozen=True)
class PduPreset:
    """The objects of one family of PDUs."""

    name: str
    about: str
    source: str
    total: PduObject
    outlet: PduObject | None = None
    branch: PduObject | None = None
    """A phase, bank, section or group, whatever the maker measures between input and outlets."""
    first_pdu: int = 1
    """Number of the first PDU of a chain."""


_APC = "1.3.6.1.4.1.318.1.1"
_EATON = "1.3.6.1.4.1.534.6.6.7"
_RARITAN = "1.3.6.1.4.1.13742.6"
_SENTRY = "1.3.6.1.4.1.1718.4.1"

PRESETS: dict[str, PduPreset] = {
    preset.name: preset
    for preset in (
        PduPreset(
            "apc-rpdu2",
            "APC Rack PDU 2G (AP8000, AP9000); a branch is a phase",
            "PowerNet-MIB: rPDU2DeviceStatusPower, rPDU2PhaseStatusPower (0.01 kW), "
            "rPDU2OutletMeteredStatusPower (W)",
            PduObject(f"{_APC}.26.4.3.1.5.{{pdu}}", 10.0),
            outlet=PduObject(f"{_APC}.26.9.4.3.1.7.{{number}}"),
            branch=PduObject(f"{_APC}.26.6.3.1.7.{{number}}", 10.0),
        ),
        PduPreset(
            "apc-rpdu",
            "APC Rack PDU of the first generation (AP7800, AP7900)",
            "PowerNet-MIB: rPDUIdentDevicePowerWatts",
            PduObject(f"{_APC}.12.1.16.0"),
        ),
        PduPreset(
            "raritan",
            "Raritan PX2, PX3, PX4 and Server Technology PRO3X, PRO4X; the total is of inlet 1",
            "PDU2-MIB: measurementsInletSensorValue, measurementsOutletSensorValue of "
            "activePower(5), with inletSensorDecimalDigits, outletSensorDecimalDigits",
            PduObject(
                f"{_RARITAN}.5.2.3.1.4.{{pdu}}.1.5", digits_oid=f"{_RARITAN}.3.3.4.1.7.{{pdu}}.1.5"
            ),
            outlet=PduObject(
                f"{_RARITAN}.5.4.3.1.4.{{pdu}}.{{number}}.5",
                digits_oid=f"{_RARITAN}.3.5.4.1.7.{{pdu}}.{{number}}.5",
            ),
        ),
        PduPreset(
            "eaton",
            "Eaton ePDU G2, G3, G4; the total is of input 1, a branch is a group (section)",
            "EATON-EPDU-MIB: inputTotalWatts, groupWatts, outletWatts",
            PduObject(f"{_EATON}.3.5.1.4.{{pdu}}.1"),
            outlet=PduObject(f"{_EATON}.6.5.1.3.{{pdu}}.{{number}}"),
            branch=PduObject(f"{_EATON}.5.5.1.3.{{pdu}}.{{number}}"),
            first_pdu=0,
        ),
        PduPreset(
            "servertech",
            "Server Technology Sentry4 (PRO1, PRO2); of input cord 1",
            "Sentry4-MIB: st4InputCordActivePower, st4OutletActivePower",
            PduObject(f"{_SENTRY}.3.3.1.3.{{pdu}}.1"),
            outlet=PduObject(f"{_SENTRY}.8.3.1.7.{{pdu}}.1.{{number}}"),
        ),
    )
}
"""Every family by its name."""
