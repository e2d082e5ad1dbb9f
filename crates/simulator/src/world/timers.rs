//! Each host's cores, each volume's drive and the network have one event: their next completion.

use headrace_model::link::tcp::Path;
use headrace_model::request::{Device, Status};

use headrace_model::slots::Id;

use super::{Event, World};
use crate::ids::{RpcId, TaskId, Worker};
use crate::remote::Stage;

impl World<'_> {
    /// Return the host whose cores a host uses.
    pub fn cores_of(&self, host: u32) -> u32 {
        if self.scenario.one_machine {
            0
        } else {
            host
        }
    }

    /// Start work of a job's process on a host's cores.
    pub fn start_task_work(&mut self, host: u32, task: TaskId, cpu_ns: u64) {
        let (host, now) = (self.cores_of(host), self.now);
        self.hosts[host as usize].cpu.start(now, Worker::Task(task), cpu_ns);
        self.set_cpu_timer(host);
    }

    /// Start work for a request on the cores of the host that serves it.
    pub fn start_rpc_work(&mut self, host: u32, rpc: RpcId, cpu_ns: u64) {
        let (host, now) = (self.cores_of(host), self.now);
        self.hosts[host as usize].cpu.start(now, Worker::Rpc(rpc), cpu_ns);
        self.set_cpu_timer(host);
    }

    /// Start work of a host's system, for which nothing waits.
    pub fn start_system_work(&mut self, host: u32, cpu_ns: u64) {
        if cpu_ns > 0 {
            let (host, now) = (self.cores_of(host), self.now);
            self.hosts[host as usize].cpu.start(now, Worker::System, cpu_ns);
            self.set_cpu_timer(host);
        }
    }

    fn set_cpu_timer(&mut self, host: u32) {
        let h = &mut self.hosts[host as usize];
        match (h.cpu.next_done(), h.cpu_timer) {
            (Some(time), Some(timer)) => {
                if self.events.time_of(timer) != time {
                    self.events.reschedule(timer, time);
                }
            }
            (Some(time), None) => {
                h.cpu_timer = Some(self.events.schedule(time, 1, Event::Cpu(host)))
            }
            (None, Some(timer)) => {
                self.events.cancel(timer);
                h.cpu_timer = None;
            }
            (None, None) => {}
        }
    }

    pub(super) fn cpu_done(&mut self, host: u32) {
        let h = &mut self.hosts[host as usize];
        h.cpu_timer = None;
        let (who, cpu_ns) = h.cpu.finish(self.now);
        self.set_cpu_timer(host);
        match who {
            Worker::Task(task) => self.task_worked(task, cpu_ns),
            Worker::Rpc(rpc) => self.rpc_worked(rpc),
            Worker::System => {}
        }
    }

    /// Schedule the event of a volume's drive at the queue's next wake time.
    pub fn set_drive_timer(&mut self, volume: u32) {
        let v = &mut self.volumes[volume as usize];
        match (v.queue.next_wake(), v.timer) {
            (Some(time), Some(timer)) => {
                let time = time.max(self.now);
                if self.events.time_of(timer) != time {
                    self.events.reschedule(timer, time);
                }
            }
            (Some(time), None) => {
                v.timer = Some(self.events.schedule(time.max(self.now), 0, Event::Drive(volume)));
            }
            (None, Some(timer)) => {
                self.events.cancel(timer);
                v.timer = None;
            }
            (None, None) => {}
        }
    }

    pub(super) fn wake_drive(&mut self, volume: u32) {
        self.sample(volume);
        let mut completions = std::mem::take(&mut self.completions);
        let v = &mut self.volumes[volume as usize];
        v.queue.wake(self.now, &mut completions);
        let (host, done) = (v.host, completions.len() as u64);
        self.counters.requests += done;
        self.start_system_work(host, done * self.hosts[host as usize].beside_request_ns);
        for completion in completions.drain(..) {
            self.io_done(Id::of_tag(completion.tag), completion.status != Status::Done);
        }
        self.completions = completions;
        self.set_drive_timer(volume);
    }

    /// Send the data of a request from one host to another, as soon as the window of their
    /// connection allows; the request continues when the last byte was sent.
    pub fn start_flow(&mut self, from: u32, to: u32, bytes: u64, rpc: RpcId) {
        if self.tcp.is_none() {
            self.send_bytes(from, to, bytes, rpc);
            return;
        }
        let path = self.path(from, to);
        let Some(tcp) = &mut self.tcp else { return };
        let time = tcp.send(self.now, &path, bytes, rpc.tag());
        if time <= self.now {
            self.send_bytes(from, to, bytes, rpc);
            return;
        }
        self.rpcs[rpc].stage = Stage::Opening;
        self.events.schedule(time, 1, Event::Rpc(rpc));
    }

    fn path(&self, from: u32, to: u32) -> Path {
        Path {
            from,
            to,
            round_trip_ns: 2 * self.latency(from, to),
            rate_bytes_per_s: self.network.share(from, to),
            port_bytes_per_s: self.network.receive_rate(to),
            line_bytes_per_s: self.network.line_rate(from, to),
        }
    }

    /// Continue a request whose last byte was sent at its fair rate, when its last packet arrived.
    pub(crate) fn flow_sent(&mut self, rpc: RpcId) {
        if self.tcp.is_some() {
            let (from, to) = self.flow_ends(rpc);
            let path = self.path(from, to);
            let tcp = self.tcp.as_mut();
            if let Some(time) = tcp.and_then(|tcp| tcp.done(self.now, &path, rpc.tag())) {
                self.rpcs[rpc].stage = Stage::Arrears;
                self.events.schedule(time, 1, Event::Rpc(rpc));
                return;
            }
        }
        self.rpc_sent(rpc);
    }

    /// Send bytes from one host to another at their share of the ports.
    pub fn send_bytes(&mut self, from: u32, to: u32, bytes: u64, rpc: RpcId) {
        self.hosts[from as usize].sent_bytes += bytes;
        self.hosts[to as usize].received_bytes += bytes;
        self.counters.flows += 1;
        self.network.start(self.now, from, to, bytes, rpc.tag());
        self.set_network_timer();
    }

    pub fn set_network_timer(&mut self) {
        match (self.network.next_done(), self.network_timer) {
            (Some(time), Some(timer)) => {
                let time = time.max(self.now);
                if self.events.time_of(timer) != time {
                    self.events.reschedule(timer, time);
                }
            }
            (Some(time), None) => {
                self.network_timer =
                    Some(self.events.schedule(time.max(self.now), 0, Event::Network));
            }
            (None, Some(timer)) => {
                self.events.cancel(timer);
                self.network_timer = None;
            }
            (None, None) => {}
        }
    }

    pub(super) fn flow_done(&mut self) {
        if let Some(rpc) = self.network.finish(self.now) {
            self.flow_sent(Id::of_tag(rpc));
        }
        self.set_network_timer();
    }
}
