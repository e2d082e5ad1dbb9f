//! Files on mounts, from creation until the last I/O of a deleted file completes.

use headrace_model::pagecache::readahead::ReadAhead;

use crate::ids::InstanceId;
use crate::world::{Content, Instance, Mounted, World};

impl Instance {
    pub fn is_metadata(&self) -> bool {
        self.content == Content::Metadata
    }

    /// Return the file in the volume's filesystem, or the service's file.
    pub fn file(&self) -> u32 {
        match self.content {
            Content::File(file) => file,
            Content::Metadata => unreachable!("metadata blocks are in no file"),
        }
    }
}

impl World<'_> {
    pub fn new_instance(&mut self, mount: u32, content: Content, bytes: u64) -> InstanceId {
        let host = self.mounts[mount as usize].host as usize;
        let cache_file = self.hosts[host].cache.add_file();
        self.instances.insert(Instance {
            mount,
            cache_file,
            content,
            bytes,
            opened: 0,
            ios: 0,
            doomed: false,
            dirty_since: 0,
            in_dirty_list: false,
            urgent: false,
            ordered: false,
            flush_cursor: 0,
            writes: 0,
            sync_waiters: Vec::new(),
            uncommitted: false,
            behind_bytes: 0,
            behind_waiter: None,
            read_ahead: ReadAhead::default(),
            last_access: 0,
        })
    }

    pub fn grow(&mut self, instance: InstanceId, bytes: u64) {
        let i = &mut self.instances[instance];
        i.bytes = i.bytes.max(bytes);
        if let Mounted::Service(service) = self.mounts[i.mount as usize].mounted {
            let file = i.file();
            self.services[service as usize].grow(file, bytes);
        }
    }

    /// Delete a file of a mount; it is removed when its last I/O completes.
    pub fn doom(&mut self, instance: InstanceId) {
        self.instances[instance].doomed = true;
        if self.instances[instance].opened == 0 && self.instances[instance].sync_waiters.is_empty()
        {
            // Truncated: its dirty pages need not be written.
            self.undirty(instance);
        }
        self.bury(instance);
    }

    pub(crate) fn bury(&mut self, instance: InstanceId) {
        let i = &self.instances[instance];
        if !i.doomed || i.ios > 0 || i.writes > 0 || i.opened > 0 || !i.sync_waiters.is_empty() {
            return;
        }
        let (mount, cache_file, file) = (i.mount, i.cache_file, i.file());
        self.instances[instance].doomed = false;
        self.undirty(instance);
        let host = self.mounts[mount as usize].host as usize;
        self.hosts[host].cache.remove_file(cache_file);
        match self.mounts[mount as usize].mounted {
            Mounted::Volume(volume) => {
                let freed = self.volumes[volume as usize].fs.delete(file);
                self.discard_freed(volume, &freed);
            }
            Mounted::Service(service) => {
                self.client_instances.remove(&(mount, file));
                self.lustre.remove(&instance);
                self.delete_remote(service, file);
            }
        }
        self.instances.remove(instance);
        self.release_throttled(host as u32);
    }
}
