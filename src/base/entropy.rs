//! One seed, split into named streams, so that a run can be replayed: a draw from one stream never moves another.

use super::planted;

/// A deterministic stream of random numbers (SplitMix64). Not for secrets.
#[derive(Clone, Debug)]
pub struct Entropy {
    state: u64,
}

impl Entropy {
    /// The root stream of a seed.
    pub fn new(seed: u64) -> Self {
        Entropy { state: seed }
    }

    /// A stream of its own for `name`, which depends on the seed and the name alone.
    pub fn stream(&self, name: &str) -> Entropy {
        let mut child = Entropy { state: self.state ^ 0x9E37_79B9_7F4A_7C15 };
        for byte in name.bytes() {
            child.state ^= u64::from(byte);
            // What is drawn, and not the next state: that lies a fixed step further on, so that of names which differ in
            // length or a digit one stream might begin within another.
            child.state = child.next_u64();
        }
        child
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// The next 128 bits.
    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    /// A random version-4 UUID, as Kafka draws topic ids and member ids.
    pub fn next_uuid(&mut self) -> uuid::Uuid {
        let drawn = self.next_u128().wrapping_add(planted::from_outside());
        uuid::Builder::from_random_bytes(drawn.to_be_bytes()).into_uuid()
    }

    /// A number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_seed_and_name_alone() {
        let root = Entropy::new(7);
        let mut used = root.clone();
        used.next_u64();
        assert_eq!(root.stream("topics").next_u64(), Entropy::new(7).stream("topics").next_u64());
        assert_ne!(root.stream("topics").next_u64(), root.stream("members").next_u64());
        assert_ne!(root.stream("topics").next_u64(), Entropy::new(8).stream("topics").next_u64());
    }

    #[test]
    fn streams_have_nothing_in_common() {
        let again = |broker: u32, times: u32| match times {
            0 => format!("member ids of broker {broker}"),
            _ => format!("member ids of broker {broker}, started again {times} times"),
        };
        for seed in 0..200 {
            let root = Entropy::new(seed);
            let mut drawn = std::collections::BTreeSet::new();
            for (broker, times) in (1..5).flat_map(|broker| (0..5).map(move |times| (broker, times))) {
                let mut stream = root.stream(&again(broker, times));
                assert!((0..50).all(|_| drawn.insert(stream.next_u64())), "{seed}: {broker}, {times}");
            }
        }
    }

    #[test]
    fn below_stays_below() {
        let mut entropy = Entropy::new(1);
        assert!((0..1000).all(|_| entropy.below(7) < 7));
        assert_eq!(entropy.below(0), 0);
    }
}
