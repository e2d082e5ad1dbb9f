//! Hooks for the calls that execute a program with a list of arguments (`execl`). A function with a
//! variable number of arguments cannot be written in Rust: a few instructions lay the arguments in
//! registers before those on the stack, and the list becomes an array, as in the C library.

use core::ffi::c_void;

use libc::{c_char, c_int};

use crate::kernel;
use crate::lifetime::{execve, execvp};

/// Arguments of most programs; more get memory of their own.
const MOST: usize = 256;

type Words = *const *const c_char;

extern "C" {
    static environ: Words;
}

enum Kind {
    /// A path, the arguments, NULL.
    Plain,
    /// The same with a name that is searched for.
    Searched,
    /// A path, the arguments, NULL, the environment.
    WithEnvironment,
}

#[cfg(target_arch = "x86_64")]
const IN_REGISTERS: usize = 5;
#[cfg(target_arch = "aarch64")]
const IN_REGISTERS: usize = 7;

macro_rules! lists {
    ($($hook:ident $kind:expr;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook() {
            core::arch::naked_asm!(
                "push r9", "push r8", "push rcx", "push rdx", "push rsi",
                "mov rsi, rsp",
                "lea rdx, [rsp + 48]", // beyond the registers and the return address
                "mov ecx, {kind}",
                "call {listed}",
                "add rsp, 40",
                "ret",
                kind = const $kind as usize,
                listed = sym listed,
            )
        }

        /// Same as for x86-64.
        ///
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook() {
            core::arch::naked_asm!(
                "sub sp, sp, #80",
                "stp x1, x2, [sp]", "stp x3, x4, [sp, #16]", "stp x5, x6, [sp, #32]",
                "str x7, [sp, #48]", "str x30, [sp, #64]",
                "mov x1, sp",
                "add x2, sp, #80",
                "mov w3, {kind}",
                "bl {listed}",
                "ldr x30, [sp, #64]",
                "add sp, sp, #80",
                "ret",
                kind = const $kind as usize,
                listed = sym listed,
            )
        }
    )*};
}

lists! {
    execl Kind::Plain;
    execlp Kind::Searched;
    execle Kind::WithEnvironment;
}

unsafe extern "C-unwind" fn listed(
    path: *const c_char,
    registers: Words,
    stack: Words,
    kind: usize,
) -> c_int {
    let argument = |index: usize| {
        if index < IN_REGISTERS {
            *registers.add(index)
        } else {
            *stack.add(index - IN_REGISTERS)
        }
    };
    let mut count = 0;
    while !argument(count).is_null() {
        count += 1;
    }
    let given = kind == Kind::WithEnvironment as usize;
    let variables = if given { argument(count + 1).cast() } else { environ };
    let call = |words: *mut *const c_char| {
        (0..=count).for_each(|index| *words.add(index) = argument(index));
        if kind == Kind::Searched as usize {
            execvp(path, words)
        } else {
            execve(path, words, variables)
        }
    };
    if count < MOST {
        return call([core::ptr::null(); MOST].as_mut_ptr());
    }
    let bytes = (count + 1) * size_of::<*const c_char>();
    let Some(room) = kernel::map_private(bytes) else {
        *libc::__errno_location() = libc::ENOMEM;
        return -1;
    };
    let done = call(room.cast::<c_void>().cast());
    kernel::unmap(room, bytes);
    done
}
