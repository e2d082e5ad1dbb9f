//! Transport of a request: a slot of the client's channel to the server, the network, and the
//! reply.

use std::collections::hash_map::Entry;
use std::collections::VecDeque;

use super::{Channel, RpcKind, Sender, Stage};
use crate::ids::RpcId;
use crate::world::{Event, World};

impl World<'_> {
    fn channel(&mut self, rpc: RpcId) -> &mut Channel {
        let r = self.rpcs[rpc];
        let s = &mut self.services[r.service as usize];
        let index = r.client as usize * s.targets.len() + r.target as usize;
        if index >= s.channels.len() {
            s.channels.resize_with(index + 1, Channel::default);
        }
        &mut s.channels[index]
    }

    /// Queue a client's request for a slot of its channel. A server that forwards a replica does
    /// not wait: each pipeline has its own connection and thread, and a limit shared by crossing
    /// pipelines would deadlock.
    pub(crate) fn enqueue(&mut self, rpc: RpcId) {
        if matches!(self.rpcs[rpc].sender, Sender::Forwarder(_)) {
            self.depart(rpc);
            return;
        }
        if self.is_lost(rpc) && self.reconstruct(rpc, false) {
            return;
        }
        let limit = self.services[self.rpcs[rpc].service as usize].settled.requests_in_flight;
        let channel = self.channel(rpc);
        if channel.in_flight >= limit {
            channel.waiting.push_back(rpc);
        } else {
            channel.in_flight += 1;
            self.depart(rpc);
        }
    }

    pub(crate) fn leave_channel(&mut self, rpc: RpcId) {
        if matches!(self.rpcs[rpc].sender, Sender::Forwarder(_)) {
            return;
        }
        let channel = self.channel(rpc);
        channel.in_flight -= 1;
        if let Some(next) = channel.waiting.pop_front() {
            channel.in_flight += 1;
            self.depart(next);
        }
    }

    /// Return the one-way latency between two hosts.
    pub(crate) fn latency(&self, from: u32, to: u32) -> u64 {
        if from == to {
            // Loopback.
            10_000
        } else {
            self.hosts[from as usize].latency_ns + self.hosts[to as usize].latency_ns
        }
    }

    fn depart(&mut self, rpc: RpcId) {
        let r = self.rpcs[rpc];
        let server = self.services[r.service as usize].targets[r.target as usize].host;
        if r.kind == RpcKind::Write && server != r.client {
            self.rpcs[rpc].stage = Stage::Sending;
            if self.connection_is_free(rpc) {
                self.start_flow(r.client, server, r.bytes, rpc);
            }
            return;
        }
        self.travel(rpc);
    }

    /// Return whether a packet of a write pipeline may be sent now. If its connection sends another
    /// packet, it waits for its turn: packets of a connection follow each other, so that the next
    /// server sends the first on while the second arrives.
    fn connection_is_free(&mut self, rpc: RpcId) -> bool {
        let r = self.rpcs[rpc];
        let s = &mut self.services[r.service as usize];
        if !s.settled.replica_pipeline {
            return true;
        }
        match s.connections.entry((r.file, r.client, r.target)) {
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push_back(rpc);
                false
            }
            Entry::Vacant(free) => {
                free.insert(VecDeque::new());
                true
            }
        }
    }

    /// Send the next packet of a connection whose packet was sent.
    fn send_next_packet(&mut self, rpc: RpcId) {
        let r = self.rpcs[rpc];
        let s = &mut self.services[r.service as usize];
        if !s.settled.replica_pipeline {
            return;
        }
        let connection = (r.file, r.client, r.target);
        match s.connections.get_mut(&connection).and_then(VecDeque::pop_front) {
            Some(next) => {
                let (from, to) = self.flow_ends(next);
                let bytes = self.rpcs[next].bytes;
                self.start_flow(from, to, bytes, next);
            }
            None => {
                s.connections.remove(&connection);
            }
        }
    }

    fn travel(&mut self, rpc: RpcId) {
        let r = self.rpcs[rpc];
        let s = &self.services[r.service as usize];
        let delay =
            self.latency(r.client, s.targets[r.target as usize].host) + s.settled.client_delay_ns;
        self.rpcs[rpc].stage = Stage::Arriving;
        self.events.schedule_fixed(self.now + delay, 1, Event::Rpc(rpc));
    }

    /// Return the hosts that send and receive the data of a request.
    pub(crate) fn flow_ends(&self, rpc: RpcId) -> (u32, u32) {
        let r = &self.rpcs[rpc];
        let server = self.services[r.service as usize].targets[r.target as usize].host;
        match r.kind {
            RpcKind::Write => (r.client, server),
            _ => (server, r.client),
        }
    }

    /// Send the data of a request that waited for its connection.
    fn send_later(&mut self, rpc: RpcId) {
        let (from, to) = self.flow_ends(rpc);
        let bytes = self.rpcs[rpc].bytes;
        self.set_sending(rpc);
        self.send_bytes(from, to, bytes, rpc);
    }

    fn set_sending(&mut self, rpc: RpcId) {
        let r = &mut self.rpcs[rpc];
        r.stage = if r.kind == RpcKind::Write { Stage::Sending } else { Stage::Returning };
    }

    /// Continue a request whose data was sent completely.
    pub fn rpc_sent(&mut self, rpc: RpcId) {
        match self.rpcs[rpc].stage {
            Stage::Sending => {
                self.send_next_packet(rpc);
                self.travel(rpc);
            }
            _ => self.deliver_later(rpc),
        }
    }

    pub(crate) fn deliver_later(&mut self, rpc: RpcId) {
        let r = self.rpcs[rpc];
        let server = self.services[r.service as usize].targets[r.target as usize].host;
        self.rpcs[rpc].stage = Stage::Delivering;
        let time = self.now + self.latency(server, r.client);
        self.events.schedule_fixed(time, 1, Event::Rpc(rpc));
    }

    /// Continue a request at its next stage.
    pub fn rpc_stage(&mut self, rpc: RpcId) {
        match self.rpcs[rpc].stage {
            Stage::Arriving => self.arrive(rpc),
            Stage::Delivering => self.delivered(rpc),
            Stage::Opening => self.send_later(rpc),
            Stage::Arrears => {
                self.set_sending(rpc);
                self.flow_sent(rpc);
            }
            Stage::TimedOut => self.try_again(rpc),
            stage => unreachable!("no event is scheduled for {stage:?}"),
        }
    }
}
