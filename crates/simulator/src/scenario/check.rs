//! Validation of a scenario before the models are built.

use std::collections::BTreeSet;

use headrace_model::pagecache::PAGE_BYTES;

use super::{
    BackendSpec, Feed, HostSpec, Load, PacketRules, Place, Scenario, ScenarioError, ServiceKind,
    ServiceSpec, Share, Step, LEAST_CACHE_BYTES,
};

fn positive(path: String, value: f64) -> Result<(), ScenarioError> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(ScenarioError::new(path, value, "a number above 0"))
    }
}

fn fraction(path: String, value: f64) -> Result<(), ScenarioError> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(ScenarioError::new(path, value, "0 to 1"))
    }
}

/// Most threads of a job.
const MOST_THREADS: u32 = 4095;

fn at_least_one(path: String, value: u64) -> Result<(), ScenarioError> {
    if value > 0 {
        Ok(())
    } else {
        Err(ScenarioError::new(path, value, "1 or more"))
    }
}

fn unique<'a>(path: &str, names: impl Iterator<Item = &'a str>) -> Result<(), ScenarioError> {
    let mut seen = BTreeSet::new();
    for (number, name) in names.enumerate() {
        if !seen.insert(name) {
            let path = format!("{path}[{number}].name");
            return Err(ScenarioError::new(
                path,
                format!("\"{name}\""),
                "a name that is not taken yet",
            ));
        }
    }
    Ok(())
}

fn known<'a>(
    path: String,
    name: &str,
    mut names: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), ScenarioError> {
    if names.clone().any(|n| n == name) {
        return Ok(());
    }
    let mut list: Vec<_> = names.by_ref().collect();
    list.dedup();
    let allowed = if list.is_empty() { "none is defined".to_owned() } else { list.join(", ") };
    Err(ScenarioError::new(path, format!("\"{name}\""), allowed))
}

fn host(path: &str, host: &HostSpec) -> Result<(), ScenarioError> {
    at_least_one(format!("{path}.count"), u64::from(host.count))?;
    at_least_one(format!("{path}.cores"), u64::from(host.cores))?;
    positive(format!("{path}.cpu_speed"), host.cpu_speed)?;
    positive(format!("{path}.copy_bytes_per_s"), host.copy_bytes_per_s)?;
    for (field, rate) in [
        ("write_copy_bytes_per_s", host.write_copy_bytes_per_s),
        ("first_touch_bytes_per_s", host.first_touch_bytes_per_s),
    ] {
        if !(0.0..f64::INFINITY).contains(&rate) {
            return Err(ScenarioError::new(format!("{path}.{field}"), rate, "0 or more"));
        }
    }
    positive(format!("{path}.network.rate_bytes_per_s"), host.network.rate_bytes_per_s)?;
    at_least_one(format!("{path}.sharing.timeslice_ns"), host.sharing.timeslice_ns)?;
    if !(0.0..1.0).contains(&host.sharing.busy_core_slowdown) {
        let path = format!("{path}.sharing.busy_core_slowdown");
        return Err(ScenarioError::new(
            path,
            host.sharing.busy_core_slowdown,
            "0 or more, below 1",
        ));
    }
    fraction(format!("{path}.writeback.dirty_ratio"), host.writeback.dirty_ratio)?;
    fraction(
        format!("{path}.writeback.dirty_background_ratio"),
        host.writeback.dirty_background_ratio,
    )?;
    if host.memory_bytes <= host.memory_reserved_bytes {
        let allowed = format!("more than memory_reserved_bytes ({})", host.memory_reserved_bytes);
        return Err(ScenarioError::new(format!("{path}.memory_bytes"), host.memory_bytes, allowed));
    }
    if let Some(machine) = &host.virtualisation {
        positive(format!("{path}.virtualisation.cpu_factor"), machine.cpu_factor)?;
    }
    unique(&format!("{path}.volumes"), host.volumes.iter().map(|v| v.name.as_str()))?;
    for (number, volume) in host.volumes.iter().enumerate() {
        let path = format!("{path}.volumes[{number}]");
        if volume.storage.is_some() == volume.ideal.is_some() {
            let given = if volume.ideal.is_some() { "both" } else { "neither" };
            return Err(ScenarioError::new(path, given, "exactly one of storage and ideal"));
        }
        if volume.max_request_bytes < 4096 {
            let path = format!("{path}.max_request_bytes");
            return Err(ScenarioError::new(path, volume.max_request_bytes, "4096 or more"));
        }
        fraction(format!("{path}.filesystem.used_fraction"), volume.filesystem.used_fraction)?;
        fraction(format!("{path}.filesystem.start_fraction"), volume.filesystem.start_fraction)?;
        at_least_one(
            format!("{path}.filesystem.directories"),
            u64::from(volume.filesystem.directories),
        )?;
    }
    Ok(())
}

/// Check a service with erasure coding on this many targets.
fn check_coding(service: &ServiceSpec, path: &str, targets: u64) -> Result<(), ScenarioError> {
    let tuning = service.tuning.settle(service.kind);
    let parity = u64::from(tuning.parity_targets);
    let field = format!("{path}.tuning.parity_targets");
    let refuse = |allowed: String| Err(ScenarioError::new(field.clone(), parity, allowed));
    let blocks = service.kind == ServiceKind::Hdfs || tuning.block_bytes > 0;
    if blocks || tuning.stripe_bytes == 0 || tuning.replicas > 1 || tuning.write_back {
        return refuse(
            "0, or a service with stripe_bytes, without blocks, replicas and write_back".into(),
        );
    }
    if service.upstream().is_some() {
        return refuse("0 for a service before another: the upstream has the parity".into());
    }
    let data = u64::from(tuning.stripe_targets).max(1);
    if data + parity > targets || data + parity > 255 {
        return refuse(format!(
            "at most {} with stripe_targets = {data}",
            targets.saturating_sub(data)
        ));
    }
    Ok(())
}

fn check_rules(rules: &PacketRules) -> Result<(), ScenarioError> {
    let path = |field: &str| format!("run.feed.rules.{field}");
    at_least_one(path("cluster_events"), rules.cluster_events)?;
    at_least_one(path("workers_per_server"), rules.workers_per_server.unwrap_or(1).into())?;
    if rules.longest_ns < rules.shortest_ns {
        let allowed = format!("shortest_ns ({}) or more", rules.shortest_ns);
        return Err(ScenarioError::new(path("longest_ns"), rules.longest_ns, allowed));
    }
    Ok(())
}

impl Scenario {
    /// Check what can be checked without building the models.
    ///
    /// # Errors
    /// The first problem found.
    pub fn check(&self) -> Result<(), ScenarioError> {
        at_least_one("nodes".into(), self.nodes.len() as u64)?;
        let hosts = || self.nodes.iter().chain(&self.servers);
        for (number, spec) in self.nodes.iter().enumerate() {
            host(&format!("nodes[{number}]"), spec)?;
        }
        for (number, spec) in self.servers.iter().enumerate() {
            host(&format!("servers[{number}]"), spec)?;
        }
        unique("nodes and servers", hosts().map(|h| h.name.as_str()))?;
        unique("services", self.services.iter().map(|s| s.name.as_str()))?;
        unique("files", self.files.iter().map(|f| f.name.as_str()))?;
        unique("profiles", self.profiles.iter().map(|p| p.name.as_str()))?;
        self.check_services()?;
        self.check_files()?;
        self.check_run()?;
        for (number, fault) in self.faults.iter().enumerate() {
            let name = fault.host.split('[').next().unwrap_or_default();
            known(format!("faults[{number}].host"), name, hosts().map(|h| h.name.as_str()))?;
        }
        if let Some(leaves) = &self.leaves {
            at_least_one("leaves.nodes".into(), u64::from(leaves.nodes))?;
            positive("leaves.uplink_bytes_per_s".into(), leaves.uplink_bytes_per_s)?;
        }
        if let Some(tcp) = &self.tcp {
            let packets = u64::from(tcp.initial_window_packets);
            at_least_one("tcp.initial_window_packets".into(), packets)?;
            if !(576..=65_535).contains(&tcp.mtu_bytes) {
                let (path, mtu) = ("tcp.mtu_bytes".to_string(), tcp.mtu_bytes);
                return Err(ScenarioError::new(path, mtu, "576 to 65535"));
            }
        }
        positive("power.pue".into(), self.power.pue)
    }

    fn check_services(&self) -> Result<(), ScenarioError> {
        for (number, service) in self.services.iter().enumerate() {
            let path = format!("services[{number}]");
            at_least_one(format!("{path}.targets"), service.targets.len() as u64)?;
            let targets = self.check_targets(service, &path)?;
            let single = matches!(service.kind, ServiceKind::Nfs | ServiceKind::Bluearc);
            if single && targets != 1 {
                return Err(ScenarioError::new(
                    format!("{path}.targets"),
                    targets,
                    "one server for this kind",
                ));
            }
            let tuning = service.tuning.settle(service.kind);
            for (field, value) in [
                ("read_request_bytes", tuning.read_request_bytes),
                ("write_request_bytes", tuning.write_request_bytes),
                ("vector_ranges", u64::from(tuning.vector_ranges)),
                ("requests_in_flight", u64::from(tuning.requests_in_flight)),
                ("server_threads", u64::from(tuning.server_threads)),
                ("metadata_servers", u64::from(tuning.metadata_servers)),
                ("metadata_threads", u64::from(tuning.metadata_threads)),
                ("replicas", u64::from(tuning.replicas)),
            ] {
                at_least_one(format!("{path}.tuning.{field}"), value)?;
            }
            if tuning.parity_targets > 0 {
                check_coding(service, &path, targets)?;
            }
            // A default (HDFS: 3 replicas) is reduced to the number of targets; an explicit value
            // is not.
            if service.tuning.replicas.is_some_and(|r| u64::from(r) > targets) {
                let allowed = format!("at most one a target ({targets})");
                return Err(ScenarioError::new(
                    format!("{path}.tuning.replicas"),
                    tuning.replicas,
                    allowed,
                ));
            }
        }
        Ok(())
    }

    /// Check the data servers of a service; return how many there are.
    fn check_targets(&self, service: &ServiceSpec, path: &str) -> Result<u64, ScenarioError> {
        let hosts = || self.nodes.iter().chain(&self.servers);
        let mut count = 0;
        for (number, target) in service.targets.iter().enumerate() {
            let path = format!("{path}.targets[{number}]");
            known(format!("{path}.host"), &target.host, hosts().map(|h| h.name.as_str()))?;
            let volume = match &target.backend {
                BackendSpec::Volume { volume } => Some((format!("{path}.volume"), volume)),
                BackendSpec::Upstream { cache, .. } => {
                    cache.as_ref().map(|cache| (format!("{path}.cache.volume"), &cache.volume))
                }
            };
            for spec in hosts().filter(|h| h.name == target.host) {
                count += u64::from(spec.count);
                if let Some((path, volume)) = &volume {
                    let volumes = spec.volumes.iter().map(|v| v.name.as_str());
                    known(path.clone(), volume, volumes)?;
                }
            }
        }
        if let Some(metadata) = &service.metadata {
            let path = format!("{path}.metadata");
            known(format!("{path}.host"), &metadata.host, hosts().map(|h| h.name.as_str()))?;
            for spec in hosts().filter(|h| h.name == metadata.host) {
                let volumes = spec.volumes.iter().map(|v| v.name.as_str());
                known(format!("{path}.volume"), &metadata.volume, volumes)?;
            }
        }
        if service.upstream().is_some() {
            self.check_upstream(service, path)?;
        }
        Ok(count)
    }

    /// Check a service whose data servers are clients of another one.
    fn check_upstream(&self, service: &ServiceSpec, path: &str) -> Result<(), ScenarioError> {
        let services = self.services.iter().map(|s| s.name.as_str());
        for (number, target) in service.targets.iter().enumerate() {
            let path = format!("{path}.targets[{number}]");
            let BackendSpec::Upstream { service: name, cache } = &target.backend else {
                let allowed = "an upstream, as the service's other servers have";
                return Err(ScenarioError::new(path, "a volume", allowed));
            };
            known(format!("{path}.upstream"), name, services.clone())?;
            if Some(name.as_str()) != service.upstream() {
                let allowed = "the same upstream for all servers of a service";
                let given = format!("\"{name}\"");
                return Err(ScenarioError::new(format!("{path}.upstream"), given, allowed));
            }
            if let Some(cache) = cache {
                if cache.block_bytes == 0 || cache.block_bytes % PAGE_BYTES != 0 {
                    let allowed = format!("a multiple of {PAGE_BYTES}");
                    let path = format!("{path}.cache.block_bytes");
                    return Err(ScenarioError::new(path, cache.block_bytes, allowed));
                }
            }
        }
        let mut chain = vec![service.name.as_str()];
        let mut next = service.upstream();
        while let Some(name) = next {
            let comes_back = chain.contains(&name);
            chain.push(name);
            if comes_back {
                return Err(ScenarioError::new(
                    format!("{path}.targets[0].upstream"),
                    format!("a circle of services ({})", chain.join(" -> ")),
                    "upstreams that end at a service on volumes",
                ));
            }
            next = self.services.iter().find(|s| s.name == name).and_then(ServiceSpec::upstream);
        }
        let behind = self.services.iter().find(|s| Some(s.name.as_str()) == service.upstream());
        if service.metadata.is_some() || behind.is_some_and(|s| s.metadata.is_some()) {
            return Err(ScenarioError::new(
                format!("{path}.metadata"),
                "metadata servers on hosts",
                "none for a service before another, and for its upstream",
            ));
        }
        let tuning = service.tuning.settle(service.kind);
        if tuning.replicas > 1 {
            return Err(ScenarioError::new(
                format!("{path}.tuning.replicas"),
                tuning.replicas,
                "1 for a service before another: the upstream has the replicas",
            ));
        }
        let blocks = service.kind == ServiceKind::Hdfs || tuning.block_bytes > 0;
        if blocks || (tuning.stripe_bytes > 0 && tuning.stripe_targets != 1) {
            return Err(ScenarioError::new(
                format!("{path}.kind"),
                "files in blocks or stripes on several servers",
                "a service that passes on whole files (nfs, glusterfs, xrootd, lustre …)",
            ));
        }
        Ok(())
    }

    fn check_files(&self) -> Result<(), ScenarioError> {
        let services = self.services.iter().map(|s| s.name.as_str());
        for (number, set) in self.files.iter().enumerate() {
            let path = format!("files[{number}]");
            at_least_one(format!("{path}.count"), u64::from(set.count))?;
            match &set.on {
                Place::Service(name) => {
                    known(format!("{path}.on.service"), name, services.clone())?
                }
                Place::Volume(name) => {
                    let volumes =
                        self.nodes.iter().flat_map(|h| h.volumes.iter().map(|v| v.name.as_str()));
                    known(format!("{path}.on.volume"), name, volumes)?;
                }
            }
            if set.share == Share::New && set.bytes > 0 {
                return Err(ScenarioError::new(
                    format!("{path}.bytes"),
                    set.bytes,
                    "0 for a new file",
                ));
            }
            if set.share != Share::New && set.bytes == 0 {
                return Err(ScenarioError::new(format!("{path}.bytes"), 0, "1 or more"));
            }
        }
        Ok(())
    }

    fn check_run(&self) -> Result<(), ScenarioError> {
        let run = &self.run;
        known("run.profile".into(), &run.profile, self.profiles.iter().map(|p| p.name.as_str()))?;
        for (number, name) in run.nodes.iter().enumerate() {
            known(
                format!("run.nodes[{number}]"),
                name,
                self.nodes.iter().map(|h| h.name.as_str()),
            )?;
        }
        at_least_one("run.slots_per_node".into(), u64::from(run.slots_per_node))?;
        fraction("run.cpu_spread".into(), run.cpu_spread)?;
        fraction("run.cpu_variation".into(), run.cpu_variation)?;
        match run.load {
            Load::Batch { jobs } => at_least_one("run.load.jobs".into(), jobs)?,
            Load::Sustained { duration_ns } => {
                at_least_one("run.load.duration_ns".into(), duration_ns)?
            }
        }
        if let Feed::Packets(packets) = &run.feed {
            known(
                "run.feed.file".into(),
                &packets.file,
                self.files.iter().map(|f| f.name.as_str()),
            )?;
            at_least_one("run.feed.events_per_file".into(), packets.events_per_file)?;
            at_least_one("run.feed.first_events".into(), packets.first_events)?;
            at_least_one("run.feed.min_events".into(), packets.min_events)?;
            if packets.max_events < packets.min_events {
                let allowed = format!("min_events ({}) or more", packets.min_events);
                return Err(ScenarioError::new("run.feed.max_events", packets.max_events, allowed));
            }
            if let Some(rules) = &packets.rules {
                check_rules(rules)?;
            }
        }
        self.check_nodes()?;
        let mut program = Vec::new();
        for (number, profile) in self.profiles.iter().enumerate() {
            at_least_one(format!("profiles[{number}].steps"), profile.steps.len() as u64)?;
            crate::program::compile(
                &profile.steps,
                &self.files,
                &format!("profiles[{number}]"),
                &mut program,
            )?;
            self.check_staging(&profile.steps, &format!("profiles[{number}]"))?;
        }
        Ok(())
    }

    /// Check that a job's memory limit leaves page cache.
    fn check_job_memory(&self, profile: usize) -> Result<(), ScenarioError> {
        let (limit, held) = (self.run.job_memory_limit_bytes, self.profiles[profile].memory_bytes);
        if limit > 0 && limit < 2 * LEAST_CACHE_BYTES {
            let allowed = format!("0 (no limit), or at least {}", 2 * LEAST_CACHE_BYTES);
            return Err(ScenarioError::new("run.job_memory_limit_bytes", limit, &allowed));
        }
        if limit > 0 && held + LEAST_CACHE_BYTES > limit {
            let path = format!("profiles[{profile}].memory_bytes");
            let allowed = format!(
                "at most {}, since each job has {limit} with its page cache",
                limit - LEAST_CACHE_BYTES
            );
            return Err(ScenarioError::new(path, held, &allowed));
        }
        Ok(())
    }

    /// Check that the nodes that run jobs have memory for them, and the volumes of their files.
    fn check_nodes(&self) -> Result<(), ScenarioError> {
        let run = &self.run;
        let profile = self.profiles.iter().position(|p| p.name == run.profile).unwrap_or_default();
        self.check_job_memory(profile)?;
        let nodes =
            self.nodes.iter().filter(|n| run.nodes.is_empty() || run.nodes.contains(&n.name));
        for node in nodes {
            let jobs = u64::from(run.slots_per_node) * self.profiles[profile].memory_bytes;
            if jobs + node.memory_reserved_bytes >= node.memory_bytes {
                let allowed = format!(
                    "less than {} so that {} slots fit into node \"{}\" and leave some page cache",
                    (node.memory_bytes - node.memory_reserved_bytes)
                        / u64::from(run.slots_per_node),
                    run.slots_per_node,
                    node.name
                );
                let path = format!("profiles[{profile}].memory_bytes");
                return Err(ScenarioError::new(path, self.profiles[profile].memory_bytes, allowed));
            }
            for (number, set) in self.files.iter().enumerate() {
                if let Place::Volume(name) = &set.on {
                    let volumes = node.volumes.iter().map(|v| v.name.as_str());
                    known(format!("files[{number}].on.volume"), name, volumes)?;
                }
            }
        }
        Ok(())
    }

    fn check_staging(&self, steps: &[Step], path: &str) -> Result<(), ScenarioError> {
        for (number, step) in steps.iter().enumerate() {
            let path = format!("{path}.steps[{number}]");
            let share = |name: &str| self.files.iter().find(|f| f.name == name).map(|f| f.share);
            match step {
                Step::Repeat { steps, .. } => self.check_staging(steps, &path)?,
                Step::Parallel { .. } if self.run.feed != Feed::Files => {
                    return Err(ScenarioError::new(path, "parallel", "no packets for such a job"));
                }
                Step::Parallel { threads, begin, parts } => {
                    if !(1..=MOST_THREADS).contains(threads) {
                        let allowed = format!("1 to {MOST_THREADS}");
                        return Err(ScenarioError::new(
                            format!("{path}.threads"),
                            threads,
                            allowed,
                        ));
                    }
                    self.check_staging(begin, &format!("{path}.begin"))?;
                    for (part, steps) in parts.iter().enumerate() {
                        self.check_staging(steps, &format!("{path}.parts[{part}]"))?;
                    }
                }
                Step::Stage { to, .. } if share(to) != Some(Share::New) => {
                    return Err(ScenarioError::new(
                        format!("{path}.to"),
                        format!("\"{to}\""),
                        "a set of new files",
                    ));
                }
                Step::Create { file } | Step::Take { file } if share(file) != Some(Share::New) => {
                    return Err(ScenarioError::new(
                        format!("{path}.file"),
                        format!("\"{file}\""),
                        "a set of new files",
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
