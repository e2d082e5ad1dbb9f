//! Buffered streams of the C library. The library reads, writes, seeks and closes for them
//! internally, at times of its choice (also at exit), by calls that no preloaded function sees.
//!
//! However, every stream calls these through a table of functions in the part of the library's data
//! that becomes read-only after loading. The recorder replaces the table entries for read, write,
//! seek and close once, before `main`, with functions that forward the call and record it. It
//! causes no additional flush, query or seek. (The alternative, comparing the descriptor's offset
//! before and after each stream function, misses data written at exit, by macros, and by functions
//! without a hook.)

use core::ffi::{c_void, CStr};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use libc::{c_char, c_int, off64_t, ssize_t, FILE};

use crate::arena::{self, Fact};
use crate::descriptors::{self, target, Target};
use crate::files::{closed, closing, opened};
use crate::kernel;
use crate::process;
use crate::real;
use crate::record::{begin, Op};
use crate::transfers::{moved, other, sought};

type Transfer = unsafe extern "C-unwind" fn(*mut FILE, *mut c_void, ssize_t) -> ssize_t;
type Seek = unsafe extern "C-unwind" fn(*mut FILE, off64_t, c_int) -> off64_t;
type Close = unsafe extern "C-unwind" fn(*mut FILE) -> c_int;

static READ: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static WRITE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static SEEK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static CLOSE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Install our functions in the tables, or record that this failed.
pub fn start() {
    let ours = [
        (c"_IO_file_read", &READ, read_stream as Transfer as usize),
        (c"_IO_file_write", &WRITE, write_stream as Transfer as usize),
        (c"_IO_file_seek", &SEEK, seek_stream as Seek as usize),
        (c"_IO_file_close", &CLOSE, close_stream as Close as usize),
    ];
    let tables = find(c"_IO_file_jumps") as usize;
    for (name, place, _) in &ours {
        place.store(find(name), Ordering::Relaxed);
    }
    let known = ours.iter().all(|(_, place, _)| !place.load(Ordering::Relaxed).is_null());
    let (from, to) = read_only_part(tables);
    // SAFETY: no other thread runs yet that could write there.
    let done = known
        && (from..to).contains(&tables)
        && unsafe { kernel::protect(from, to - from, libc::PROT_READ | libc::PROT_WRITE) };
    if !done {
        return arena::note(Fact::Streams);
    }
    let mut replaced = 0;
    for at in (from..to).step_by(size_of::<usize>()) {
        let entry = core::ptr::with_exposed_provenance_mut::<usize>(at);
        for (_, place, ours) in &ours {
            // SAFETY: mapped, aligned and currently writable.
            unsafe {
                if entry.read() == place.load(Ordering::Relaxed) as usize {
                    entry.write(*ours);
                    replaced += 1;
                }
            }
        }
    }
    // SAFETY: restores the previous protection.
    unsafe { kernel::protect(from, to - from, libc::PROT_READ) };
    if replaced < ours.len() {
        arena::note(Fact::Streams);
    }
}

fn find(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with NUL.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Return the pages around an address that are read-only after loading; empty if the address is not
/// in such pages.
fn read_only_part(address: usize) -> (usize, usize) {
    static WANTED: AtomicUsize = AtomicUsize::new(0);
    static FROM: AtomicUsize = AtomicUsize::new(0);
    static TO: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
        let object = &*object;
        for number in 0..usize::from(object.dlpi_phnum) {
            let header = &*object.dlpi_phdr.add(number);
            if header.p_type != libc::PT_GNU_RELRO {
                continue;
            }
            let from = (object.dlpi_addr + header.p_vaddr) as usize & !(kernel::PAGE_BYTES - 1);
            let to = (object.dlpi_addr + header.p_vaddr + header.p_memsz) as usize
                & !(kernel::PAGE_BYTES - 1);
            if (from..to).contains(&WANTED.load(Ordering::Relaxed)) {
                FROM.store(from, Ordering::Relaxed);
                TO.store(to, Ordering::Relaxed);
                return 1;
            }
        }
        0
    }

    WANTED.store(address, Ordering::Relaxed);
    // SAFETY: the callback reads only its arguments.
    unsafe { libc::dl_iterate_phdr(Some(look), core::ptr::null_mut()) };
    (FROM.load(Ordering::Relaxed), TO.load(Ordering::Relaxed))
}

/// Return the descriptor of a stream. Every stream whose table holds our functions has one.
unsafe fn descriptor(stream: *mut FILE) -> c_int {
    libc::fileno(stream)
}

unsafe extern "C-unwind" fn read_stream(
    stream: *mut FILE,
    buffer: *mut c_void,
    size: ssize_t,
) -> ssize_t {
    transfer(Op::Read, &READ, stream, buffer, size)
}

unsafe extern "C-unwind" fn write_stream(
    stream: *mut FILE,
    buffer: *mut c_void,
    size: ssize_t,
) -> ssize_t {
    transfer(Op::Write, &WRITE, stream, buffer, size)
}

unsafe fn transfer(
    op: Op,
    real: &AtomicPtr<c_void>,
    stream: *mut FILE,
    buffer: *mut c_void,
    size: ssize_t,
) -> ssize_t {
    let real = core::mem::transmute::<*mut c_void, Transfer>(real.load(Ordering::Relaxed));
    let fd = descriptor(stream);
    match target(fd) {
        Target::Unseen => real(stream, buffer, size),
        Target::Other => {
            let count = real(stream, buffer, size);
            other(op, count);
            count
        }
        Target::File(file) => {
            let begun = begin();
            let count = real(stream, buffer, size);
            moved(begun, op, fd, file, count, size.max(0) as u64);
            count
        }
    }
}

unsafe extern "C-unwind" fn seek_stream(
    stream: *mut FILE,
    offset: off64_t,
    whence: c_int,
) -> off64_t {
    let real = core::mem::transmute::<*mut c_void, Seek>(SEEK.load(Ordering::Relaxed));
    let Some(file) = descriptors::known_file_of(descriptor(stream)) else {
        return real(stream, offset, whence);
    };
    let begun = begin();
    let at = real(stream, offset, whence);
    sought(begun, file, offset, whence, at);
    at
}

unsafe extern "C-unwind" fn close_stream(stream: *mut FILE) -> c_int {
    let real = core::mem::transmute::<*mut c_void, Close>(CLOSE.load(Ordering::Relaxed));
    let before = closing(descriptor(stream));
    let done = real(stream);
    closed(before, done != 0);
    done
}

macro_rules! stream_opens {
    ($($name:literal $hook:ident ($($arg:ident: $kind:ty),*);)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook($($arg: $kind),*) -> *mut FILE {
            let real = real!($name as unsafe extern "C-unwind" fn($($kind),*) -> *mut FILE);
            if !process::active() {
                return real($($arg),*);
            }
            let begun = begin();
            let stream = real($($arg),*);
            if !stream.is_null() {
                opened(begun, descriptor(stream));
            }
            stream
        }
    )*};
}

stream_opens! {
    "fopen" fopen (path: *const c_char, mode: *const c_char);
    "fopen64" fopen64 (path: *const c_char, mode: *const c_char);
    "tmpfile" tmpfile ();
    "tmpfile64" tmpfile64 ();
    "freopen" freopen (path: *const c_char, mode: *const c_char, stream: *mut FILE);
    "freopen64" freopen64 (path: *const c_char, mode: *const c_char, stream: *mut FILE);
}
