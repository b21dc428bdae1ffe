//! What the machine has.

/// What is assumed where the machine doesn't tell how much memory it has.
const ASSUMED_MEMORY_BYTES: u64 = 4 << 30;

/// The budget of all logs where none is set: half of the memory that this process may have.
pub(crate) fn default_log_memory_bytes() -> u64 {
    memory_bytes().unwrap_or(ASSUMED_MEMORY_BYTES) / 2
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn memory_bytes() -> Option<u64> {
    let system = rustix::system::sysinfo();
    let installed = u64::try_from(u128::from(system.totalram) * u128::from(system.mem_unit)).ok()?;
    // A container's own limit (cgroup v2); "max" if it has none.
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
    Some(limit.map_or(installed, |limit| limit.min(installed)))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn memory_bytes() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_memory_is_a_sensible_amount() {
        let bytes = default_log_memory_bytes();
        assert!((16 << 20..1 << 50).contains(&bytes), "{bytes}");
    }
}
