//! Hooks for calls that rename a file: what is opened by its new name is the file that it was.

use core::ffi::CStr;

use libc::{c_char, c_int, c_uint};

use crate::files::number_of;
use crate::names;
use crate::process;
use crate::real;
use crate::text::Digits;

/// A directory descriptor and a path below it.
type Place = (c_int, *const c_char);

/// Write down that a file has another name from now on; `exchanged`: the other file has its old one.
unsafe fn renamed(from: Place, to: Place, exchanged: bool) {
    if !process::active() || process::is_borrowed() {
        return;
    }
    let number = |(at, path): Place| number_of(at, CStr::from_ptr(path).to_bytes());
    let (old, new) = (number(from), number(to));
    let kind: &[u8] = if exchanged { b"2" } else { b"1" };
    names::write(b'R', new, &[Digits::of(old.into()).text(), kind]);
}

macro_rules! renames {
    ($(
        $name:literal $hook:ident ($($arg:ident: $kind:ty),*)
            from $from:expr, to $to:expr, exchanged $exchanged:expr;
    )*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C" fn $hook($($arg: $kind),*) -> c_int {
            let real = real!($name as unsafe extern "C" fn($($kind),*) -> c_int);
            let done = real($($arg),*);
            if done == 0 {
                renamed($from, $to, $exchanged);
            }
            done
        }
    )*};
}

renames! {
    "rename" rename (old: *const c_char, new: *const c_char)
        from (libc::AT_FDCWD, old), to (libc::AT_FDCWD, new), exchanged false;
    "renameat" renameat (from: c_int, old: *const c_char, to: c_int, new: *const c_char)
        from (from, old), to (to, new), exchanged false;
    "renameat2" renameat2 (
        from: c_int, old: *const c_char, to: c_int, new: *const c_char, flags: c_uint
    ) from (from, old), to (to, new), exchanged flags & libc::RENAME_EXCHANGE != 0;
}
