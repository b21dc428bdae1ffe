//! Memory far away. With a million waits nearly everything that is looked at must come from there, which takes as long as
//! hundreds of instructions; who knows early what comes next asks for it early, and works on meanwhile.

/// Bytes that come from memory together.
const LINE: usize = 64;

/// Asks for a value to come near, and does not wait for it.
#[inline(always)]
pub(super) fn fetch<T>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<i8>();
    (0..size_of::<T>().div_ceil(LINE)).for_each(|line| fetch_line(start.wrapping_add(line * LINE)));
}

/// Asks for the first bytes of a value only.
#[inline(always)]
pub(super) fn fetch_start<T>(value: &T) {
    fetch_line(std::ptr::from_ref(value).cast());
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(unsafe_code, reason = "measured: see the block")]
fn fetch_line(line: *const i8) {
    // Reading ahead, the safe way, holds up what was begun before: with a million pending a wait is completed by its key
    // in 82 ns so, and in 57 ns with this (medians of three runs each in turn, `cargo bench --bench purgatory -- park`).
    // SAFETY: a prefetch changes nothing but what is cached, and fails for no address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn fetch_line(_: *const i8) {}
