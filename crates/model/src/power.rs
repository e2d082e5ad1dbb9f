//! Power beyond the drives: machines by busy cores, switches, and the site overhead (PUE).

use serde::{Deserialize, Serialize};

/// Power of a machine without its data drives, which have their own energy models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachinePower {
    pub idle_w: f64,
    /// Added while at least one core is busy (fans, memory and package leave their idle states).
    pub awake_w: f64,
    /// Added by each busy core.
    pub core_w: f64,
    /// Added per byte through the network port.
    pub network_j_per_byte: f64,
}

/// Power added by the site.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SitePower {
    /// Power usage effectiveness: power of the site divided by power of the machines.
    pub pue: f64,
    pub switch_w: f64,
}

impl Default for SitePower {
    fn default() -> Self {
        SitePower { pue: 1.0, switch_w: 0.0 }
    }
}

impl MachinePower {
    /// Return the energy of a machine over `span_ns` in joules. `busy_core_ns` is the time integral
    /// of the number of busy cores, `awake_ns` the time with at least one busy core.
    pub fn energy_j(
        &self,
        span_ns: u64,
        awake_ns: u64,
        busy_core_ns: u64,
        network_bytes: u64,
    ) -> f64 {
        (self.idle_w * span_ns as f64
            + self.awake_w * awake_ns as f64
            + self.core_w * busy_core_ns as f64)
            * 1e-9
            + self.network_j_per_byte * network_bytes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::MachinePower;

    #[test]
    fn energy_is_the_integral_over_the_states() {
        let power =
            MachinePower { idle_w: 50.0, awake_w: 5.0, core_w: 10.0, network_j_per_byte: 1e-9 };
        // One hour, half of it with 4 busy cores, and 1 TB transferred.
        let hour = 3_600_000_000_000;
        let energy = power.energy_j(hour, hour / 2, 4 * (hour / 2), 1_000_000_000_000);
        assert!((energy - (50.0 * 3600.0 + 5.0 * 1800.0 + 40.0 * 1800.0 + 1000.0)).abs() < 1e-6);
    }
}
