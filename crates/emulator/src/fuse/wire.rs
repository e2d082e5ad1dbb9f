//! The messages of the FUSE protocol (linux/fuse.h) that a single-file file system needs.

pub const FILE: u64 = 2;

pub mod op {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
}

/// Flags of INIT; the upper half is in `flags2`.
pub mod init {
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const REQUEST_TIMEOUT: u64 = 1 << 42;
}

pub mod open {
    pub const DIRECT_IO: u32 = 1;
    pub const NOFLUSH: u32 = 1 << 5;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct InHeader {
    pub len: u32,
    pub opcode: u32,
    pub unique: u64,
    pub nodeid: u64,
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
    pub total_extlen: u16,
    pub padding: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct OutHeader {
    pub len: u32,
    pub error: i32,
    pub unique: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct InitIn {
    pub major: u32,
    pub minor: u32,
    pub max_readahead: u32,
    pub flags: u32,
    pub flags2: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct InitOut {
    pub major: u32,
    pub minor: u32,
    pub max_readahead: u32,
    pub flags: u32,
    pub max_background: u16,
    pub congestion_threshold: u16,
    pub max_write: u32,
    pub time_gran: u32,
    pub max_pages: u16,
    pub map_alignment: u16,
    pub flags2: u32,
    pub max_stack_depth: u32,
    pub request_timeout_s: u16,
    pub unused: [u16; 11],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Attr {
    pub ino: u64,
    pub size: u64,
    pub blocks: u64,
    pub times: [u64; 3],
    pub time_ns: [u32; 3],
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub blksize: u32,
    pub flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct AttrOut {
    pub valid_s: u64,
    pub valid_ns: u32,
    pub dummy: u32,
    pub attr: Attr,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct EntryOut {
    pub nodeid: u64,
    pub generation: u64,
    pub entry_valid_s: u64,
    pub attr_valid_s: u64,
    pub entry_valid_ns: u32,
    pub attr_valid_ns: u32,
    pub attr: Attr,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct OpenOut {
    pub fh: u64,
    pub open_flags: u32,
    pub backing_id: i32,
}

/// READ and WRITE start with the same fields.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct TransferIn {
    pub fh: u64,
    pub offset: u64,
    pub size: u32,
    pub flags: u32,
    pub lock_owner: u64,
    pub file_flags: u32,
    pub padding: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct WriteOut {
    pub size: u32,
    pub padding: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct FallocateIn {
    pub fh: u64,
    pub offset: u64,
    pub length: u64,
    pub mode: u32,
    pub padding: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct StatfsOut {
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    pub files: u64,
    pub ffree: u64,
    pub bsize: u32,
    pub namelen: u32,
    pub frsize: u32,
    pub padding: u32,
    pub spare: [u32; 6],
}

/// Structures of integers only: any bytes are valid, and there is no padding to leak.
pub trait Plain: Copy + Default {}
impl Plain for InHeader {}
impl Plain for OutHeader {}
impl Plain for InitIn {}
impl Plain for InitOut {}
impl Plain for AttrOut {}
impl Plain for EntryOut {}
impl Plain for OpenOut {}
impl Plain for TransferIn {}
impl Plain for WriteOut {}
impl Plain for FallocateIn {}
impl Plain for StatfsOut {}

/// Read a structure from the start of a message; fields missing from a shorter message are zero.
pub fn take<T: Plain>(bytes: &[u8]) -> T {
    let mut value = T::default();
    let length = bytes.len().min(std::mem::size_of::<T>());
    // SAFETY: T is plain, and `length` fits both.
    unsafe {
        std::ptr::copy_nonoverlapping(
            bytes.as_ptr(),
            std::ptr::from_mut(&mut value).cast::<u8>(),
            length,
        )
    };
    value
}

/// Return the bytes of a structure.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: T is plain.
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), std::mem::size_of::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    #[test]
    fn sizes_are_the_kernels() {
        assert_eq!(size_of::<InHeader>(), 40);
        assert_eq!(size_of::<OutHeader>(), 16);
        assert_eq!(size_of::<InitOut>(), 64);
        assert_eq!(size_of::<AttrOut>(), 104);
        assert_eq!(size_of::<EntryOut>(), 128);
        assert_eq!(size_of::<TransferIn>(), 40);
        assert_eq!(size_of::<FallocateIn>(), 32);
        assert_eq!(size_of::<StatfsOut>(), 80);
    }
}
