"""Power, energy and emissions of a configuration, from the power of its records or offers. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.decision.rebuild import HOURS_PER_YEAR
from headrace.offers import Offers

PowerDraws = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PowerModel:
    """How power, and what follows from it, depends on the power that records or offers state."""

    factor: float
    """Power usage effectiveness (PUE) applied to the power that is stated; 1 if it has it."""
    switches_w: float
    """Power of the offered switches, with PUE."""
    idle_w: float | None
    """Idle power of everything, with switches and PUE, where the records have none; None: that of
    busy hardware."""
    offers: Offers

    def values(
        self, busy_w: PowerDraws, recorded_idle_w: PowerDraws | None
    ) -> dict[str, PowerDraws]:
        """Return power (W), and energy (Wh), emissions (g) and electricity (currency) per year.

        `busy_w`: power while jobs run, as stated. `recorded_idle_w`: idle power by the records; the
        draws of both belong together. Quantities that the offers do not allow are left out.
        """
        power_w = busy_w * self.factor + self.switches_w
        if recorded_idle_w is not None:
            idle_w = recorded_idle_w * self.factor + self.switches_w
        else:
            idle_w = power_w if self.idle_w is None else np.full_like(power_w, self.idle_w)
        busy = self.offers.busy
        energy_wh = (busy * power_w + (1 - busy) * idle_w) * HOURS_PER_YEAR
        found = {"power_w": power_w, "energy_wh_per_year": energy_wh}
        electricity = self.offers.electricity
        if electricity is not None:
            found["electricity_per_year"] = energy_wh / 1000 * electricity.price
            if electricity.co2 is not None:
                found["co2_g_per_year"] = energy_wh / 1000 * electricity.co2
        return found
