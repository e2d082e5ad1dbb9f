//! Builds the block layer of a volume.

use headrace_model::ideal::IdealDrive;
use headrace_model::request::Queue;
use headrace_model::scheduler::{BlockQueue, QueueSpec};
use headrace_model::spec::{DriveSpec, SpecError};
use headrace_model::storage::Storage;
use headrace_model::stream::name_hash;
use headrace_model::virtualisation::{VirtualDisk, VirtualDiskSpec};

use crate::scenario::{HostSpec, Scenario, ScenarioError, VolumeSpec};

fn at(path: &str, error: SpecError) -> ScenarioError {
    ScenarioError {
        path: format!("{path}.{}", error.field),
        given: error.given,
        allowed: error.allowed,
    }
}

/// Return the block layer of a volume: its drive, wrapped for virtualisation and faults, and the
/// queues.
pub(super) fn block_layer(
    scenario: &Scenario,
    host: &HostSpec,
    host_name: &str,
    volume: &VolumeSpec,
    path: &str,
) -> Result<BlockQueue, ScenarioError> {
    let queue_spec = |depth: u32| QueueSpec {
        scheduler: volume.scheduler.clone(),
        nr_requests: volume.nr_requests,
        queue_depth: volume.queue_depth.unwrap_or(depth),
        max_request_bytes: volume.max_request_bytes,
        rotational: volume.rotational(),
    };
    let seed = scenario.seed ^ name_hash(&format!("{host_name}/{}", volume.name));
    let mut members = 1;
    let (device, depth): (Box<dyn Queue + Send>, u32) = match (&volume.storage, &volume.ideal) {
        (Some(spec), _) => {
            let depth = spec.drives.first().map_or(1, DriveSpec::queue_depth);
            let storage = Storage::build_queued(spec, seed, Some(&queue_spec(depth)))
                .map_err(|error| at(&format!("{path}.storage"), error))?;
            match spec.raid.and_then(|raid| raid.controller) {
                // One queue over the array, which the volume's scheduler orders.
                Some(controller) => (Box::new(storage), controller.queue_depth),
                None => {
                    members = spec.raid.map_or(1, |raid| raid.drives);
                    (Box::new(storage), depth)
                }
            }
        }
        (None, Some(spec)) => (Box::new(IdealDrive::new(spec, seed)), (spec.channels * 2).max(32)),
        (None, None) => {
            return Err(ScenarioError::new(path, "neither", "exactly one of storage and ideal"));
        }
    };
    if let Some(machine) = &host.virtualisation {
        let spec = VirtualDiskSpec {
            request_ns: machine.disk_request_ns,
            write_request_bytes: machine.write_request_bytes,
            write_bytes_per_s: machine.write_bytes_per_s,
            write_through: machine.write_through,
        };
        // The guest has its own queue above the hypervisor's device.
        let disk = Box::new(VirtualDisk::new(device, spec));
        return Ok(BlockQueue::new(disk, &queue_spec(depth.saturating_mul(members))));
    }
    Ok(if members > 1 {
        BlockQueue::passing_on(device, volume.nr_requests.saturating_mul(members))
    } else {
        BlockQueue::new(device, &queue_spec(depth))
    })
}
