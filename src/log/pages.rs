//! Pages of memory that has not been used before.

use std::mem::MaybeUninit;

/// The smallest page there is, bytes.
const PAGE_BYTES: usize = 4 << 10;

/// Has the kernel give the pages of `memory` together, instead of one by one at the first write to each.
///
/// Where it can't or won't, all stays as it was.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "measured: see the block")]
pub(super) fn populate(memory: &mut [MaybeUninit<u8>]) {
    let start = memory.as_mut_ptr();
    let skipped = start.align_offset(PAGE_BYTES);
    let bytes = memory.len().saturating_sub(skipped) & !(PAGE_BYTES - 1);
    if bytes == 0 {
        return;
    }
    // A fault for each page costs 4 x 5 produces of 16 KiB, everything kept, 15 % more CPU in all (medians of four runs in
    // turn, `load produce` of the performance lab).
    // SAFETY: the range lies within `memory`, which is lent to us alone, and populating it changes none of its bytes.
    let _ = unsafe {
        rustix::mm::madvise(start.wrapping_add(skipped).cast(), bytes, rustix::mm::Advice::LinuxPopulateWrite)
    };
}

/// Only Linux has a way.
#[cfg(not(target_os = "linux"))]
pub(super) fn populate(_: &mut [MaybeUninit<u8>]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_stays_and_the_rest_can_be_written() {
        let mut memory = Vec::with_capacity(1 << 20);
        memory.extend_from_slice(&[7; 10_000]);
        for bytes in [0, 1, 4095, 4096, 100_000, (1 << 20) - 10_000] {
            populate(&mut memory.spare_capacity_mut()[..bytes]);
        }
        memory.resize(1 << 20, 8);
        assert!(
            memory[..10_000].iter().all(|&byte| byte == 7) && memory[10_000..].iter().all(|&byte| byte == 8)
        );
    }
}
