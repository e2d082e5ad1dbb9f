//! Start and end of link and server faults during a simulation.

use crate::build::port;
use crate::scenario::FaultKind;
use crate::world::World;

impl World<'_> {
    /// Start or end a fault of a link or a server. Faults of drives are handled by the drive
    /// models.
    pub fn fault(&mut self, number: u32, ends: bool) {
        let fault = &self.scenario.faults[number as usize];
        if !ends {
            self.counters.faults_fired += 1;
        }
        let named =
            (0..self.hosts.len() as u32).find(|&h| self.hosts[h as usize].name == fault.host);
        let Some(host) = named.or_else(|| self.hosts_named(&fault.host).first().copied()) else {
            return;
        };
        match fault.what {
            FaultKind::LinkSlow { factor } => {
                let h = &self.hosts[host as usize];
                let group = if h.is_node { &self.scenario.nodes } else { &self.scenario.servers };
                let port = port(&group[h.spec as usize]);
                let factor = if ends { 1.0 } else { factor.max(1e-6) };
                let (send, receive) =
                    (port.send_bytes_per_s * factor, port.receive_bytes_per_s * factor);
                self.network.set_rate(self.now, host, send, receive);
                self.set_network_timer();
            }
            FaultKind::ServerDown => {
                self.hosts[host as usize].down = !ends;
                if ends {
                    self.unpark(host);
                }
            }
        }
    }
}
