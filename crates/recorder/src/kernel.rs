//! The recorder's own system calls. They bypass the C library, so that no hook sees them, `errno`
//! is unchanged, and a tracer can distinguish them from the program's calls by their address.
//!
//! All functions return the kernel's result: a negative number is an error number.

use core::arch::asm;

/// # Safety
/// Same contract as the system call of this number.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn call(number: i64, arguments: [usize; 6]) -> isize {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    asm!(
        "syscall",
        inlateout("rax") number as isize => result,
        in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
        lateout("rcx") _, lateout("r11") _,
        options(nostack),
    );
    result
}

/// # Safety
/// Same contract as the system call of this number.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn call(number: i64, arguments: [usize; 6]) -> isize {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    asm!(
        "svc 0",
        in("x8") number,
        inlateout("x0") a => result,
        in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
        options(nostack),
    );
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the recorder makes system calls itself: add this architecture to kernel.rs");

pub const PAGE_BYTES: usize = 4096;

/// Open a file for the recorder. The descriptor is closed on exec.
///
/// # Safety
/// `path` ends with NUL.
pub unsafe fn open(path: &[u8], flags: i32) -> isize {
    let flags = (flags | libc::O_CLOEXEC) as usize;
    call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0])
}

pub fn close(fd: isize) {
    // SAFETY: closes a descriptor that the caller opened.
    unsafe { call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Read into the buffer and return the number of bytes.
pub fn read(fd: isize, to: &mut [u8]) -> isize {
    // SAFETY: the buffer is valid for its length.
    unsafe { call(libc::SYS_read, [fd as usize, to.as_mut_ptr() as usize, to.len(), 0, 0, 0]) }
}

/// Read entries of /proc/self/pagemap from byte offset `place`.
pub fn read_entries(fd: isize, to: &mut [u64], place: u64) -> isize {
    let bytes = core::mem::size_of_val(to);
    // SAFETY: the buffer is valid for its length.
    unsafe {
        call(
            libc::SYS_pread64,
            [fd as usize, to.as_mut_ptr() as usize, bytes, place as usize, 0, 0],
        )
    }
}

/// Return the attributes of an open file; `None` if the descriptor is not open.
pub fn facts(fd: isize) -> Option<libc::stat> {
    // SAFETY: a zeroed stat is valid; on x86-64 and arm64 this call uses the C library's layout.
    unsafe {
        let mut found: libc::stat = core::mem::zeroed();
        let pointer = core::ptr::from_mut(&mut found) as usize;
        (call(libc::SYS_fstat, [fd as usize, pointer, 0, 0, 0, 0]) == 0).then_some(found)
    }
}

/// Return the attributes of a path; follows links.
///
/// # Safety
/// `path` ends with NUL.
pub unsafe fn facts_of(path: &[u8]) -> Option<libc::stat> {
    let mut found: libc::stat = core::mem::zeroed();
    let pointer = core::ptr::from_mut(&mut found) as usize;
    let at = libc::AT_FDCWD as usize;
    (call(libc::SYS_newfstatat, [at, path.as_ptr() as usize, pointer, 0, 0, 0]) == 0)
        .then_some(found)
}

/// Return whether the kernel can read the string. If it cannot, the recorder must not read it
/// either.
pub fn is_readable(path: *const libc::c_char) -> bool {
    let at = libc::AT_FDCWD as usize;
    // SAFETY: the kernel checks the pointer.
    let found =
        unsafe { call(libc::SYS_faccessat, [at, path as usize, libc::F_OK as usize, 0, 0, 0]) };
    found != -(libc::EFAULT as isize)
}

/// Read the target of a link and return its length.
///
/// # Safety
/// `of` ends with NUL.
pub unsafe fn read_link(of: &[u8], to: *mut u8, room: usize) -> isize {
    let at = libc::AT_FDCWD as usize;
    call(libc::SYS_readlinkat, [at, of.as_ptr() as usize, to as usize, room, 0, 0])
}

/// Return the file offset of a descriptor; -ESPIPE if it is not seekable.
pub fn position(fd: i32) -> i64 {
    let whence = libc::SEEK_CUR as usize;
    // SAFETY: no pointers; the offset does not change.
    unsafe { call(libc::SYS_lseek, [fd as usize, 0, whence, 0, 0, 0]) as i64 }
}

/// Return the flags of an open descriptor.
pub fn flags(fd: i32) -> u64 {
    let command = libc::F_GETFL as usize;
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_fcntl, [fd as usize, command, 0, 0, 0, 0]).max(0) as u64 }
}

pub fn process_id() -> i32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_getpid, [0; 6]) as i32 }
}

pub fn thread_id() -> i32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_gettid, [0; 6]) as i32 }
}

/// Map the first bytes of a file, shared, for reading and writing.
pub fn map_shared(fd: isize, length: usize) -> Option<*mut u8> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: creates a new mapping.
    let found = unsafe {
        call(libc::SYS_mmap, [0, length, protection, libc::MAP_SHARED as usize, fd as usize, 0])
    };
    (found > 0).then_some(found as *mut u8)
}

/// Map zeroed private memory for the recorder.
pub fn map_private(length: usize) -> Option<*mut u8> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    // SAFETY: creates a new mapping.
    let found = unsafe { call(libc::SYS_mmap, [0, length, protection, flags, usize::MAX, 0]) };
    (found > 0).then_some(found as *mut u8)
}

/// Create a second mapping of a shared one, from the same file offset on, with any length (`mremap`
/// with an old length of 0 does this). It reaches other parts of a file without a descriptor.
///
/// # Safety
/// `of` is a shared mapping.
pub unsafe fn map_again(of: *mut u8, length: usize) -> Option<*mut u8> {
    let found =
        call(libc::SYS_mremap, [of as usize, 0, length, libc::MREMAP_MAYMOVE as usize, 0, 0]);
    (found > 0).then_some(found as *mut u8)
}

/// # Safety
/// The mapping belongs to the caller and is not used any more.
pub unsafe fn unmap(at: *mut u8, length: usize) {
    call(libc::SYS_munmap, [at as usize, length, 0, 0, 0, 0]);
}

/// Change the protection of whole pages.
///
/// # Safety
/// No code writes to the pages against their new protection.
pub unsafe fn protect(at: usize, length: usize, protection: i32) -> bool {
    call(libc::SYS_mprotect, [at, length, protection as usize, 0, 0, 0]) == 0
}

/// Let the kernel zero the page in every forked child, however it was forked.
///
/// # Safety
/// A private page of the caller.
pub unsafe fn wipe_on_fork(page: *mut u8) -> bool {
    call(libc::SYS_madvise, [page as usize, PAGE_BYTES, libc::MADV_WIPEONFORK as usize, 0, 0, 0])
        == 0
}

/// Let the kernel write into a page, so that the file gets space for it. Return false if there is
/// no space; a write by the recorder would end the program with SIGBUS. The first eight bytes
/// become 0.
///
/// # Safety
/// The first sixteen bytes of the page belong to the caller.
pub unsafe fn claim(page: *mut u8) -> bool {
    call(libc::SYS_clock_getres, [libc::CLOCK_MONOTONIC as usize, page as usize, 0, 0, 0, 0]) == 0
}

/// Block all signals of this thread and return the previous mask.
pub fn hold_signals() -> u64 {
    let (all, mut before) = (u64::MAX, 0u64);
    mask(&all, Some(&mut before));
    before
}

pub fn release_signals(before: u64) {
    mask(&before, None);
}

fn mask(set: &u64, before: Option<&mut u64>) {
    let to = before.map_or(0, |place| core::ptr::from_mut(place) as usize);
    let set = core::ptr::from_ref(set) as usize;
    // SAFETY: both pointers are valid, and the size is that of the kernel's signal set.
    unsafe { call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, set, to, 8, 0, 0]) };
}

/// Store for each page 0 or more if it is in the process's page tables, otherwise a negative
/// number.
pub fn pages_present(pages: &[usize], to: &mut [i32]) -> bool {
    let count = pages.len().min(to.len());
    let (from, to) = (pages.as_ptr() as usize, to.as_mut_ptr() as usize);
    // SAFETY: without target nodes the call moves nothing; both buffers are valid for `count`.
    unsafe { call(libc::SYS_move_pages, [0, count, from, 0, to, 0]) == 0 }
}
