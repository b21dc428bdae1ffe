//! The program. Everything is in the library but what needs unsafe code; see [`huld::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    huld::cli::main(give_back_memory)
}

/// Has the allocator give free memory back to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "C's allocator can't be asked otherwise")]
fn give_back_memory() {
    // SAFETY: it may be called at any time, from any thread.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators give it back by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_back_memory() {}
