//! An allocator that counts, for tests that hold memory to a bound. What C libraries take is not counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// Bytes allocated less bytes freed by this thread (which may free what others allocated), and the peak.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(taken: usize, given_back: usize) {
    // Threads that are ending have no counters any more, and nothing to measure.
    _ = HELD.try_with(|held| {
        held.set(held.get() + taken.cast_signed() - given_back.cast_signed());
        _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call goes on to the system's allocator with the same arguments; counting allocates nothing.
#[expect(unsafe_code, reason = "GlobalAlloc is an unsafe trait, and counting allocations needs it")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `what`; returns its result and the most bytes it held at once beyond those held before.
pub fn measured<T>(what: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = what();
    (result, (PEAK.get() - before).cast_unsigned())
}
