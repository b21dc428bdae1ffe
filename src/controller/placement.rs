//! Which brokers hold which partition (Kafka's `StripedReplicaPlacer`).
//!
//! Racks are visited in turn, from a rack that moves on by one a partition; within a rack, brokers in turn, from one that
//! moves on by one whenever the rack is visited for another partition. A broker holds a partition once. The first replica is
//! never on a fenced broker, and within a rack fenced brokers come last. Once there are as many partitions as unfenced
//! brokers, all is shuffled, so that the same assignments don't come again. Brokers without a rack make one rack; those that
//! shut down get nothing.

use super::{BrokerRegistration, ControllerError};
use crate::base::NodeId;
use crate::base::entropy::Entropy;

/// Replicas for `partitions` partitions of `factor` replicas each, the preferred leader first.
///
/// # Errors
/// If there are fewer brokers than replicas, or none that may lead.
pub fn place(
    brokers: &[BrokerRegistration],
    partitions: usize,
    factor: i16,
    entropy: &mut Entropy,
) -> Result<Vec<Vec<NodeId>>, ControllerError> {
    let usable = brokers.iter().filter(|broker| !broker.in_controlled_shutdown).count();
    let unfenced = brokers.iter().filter(|broker| broker.is_active()).count();
    let wanted = usize::try_from(factor).unwrap_or(0);
    if wanted > usable {
        return Err(ControllerError::TooFewBrokers { factor, brokers: usable });
    }
    if unfenced == 0 {
        return Err(ControllerError::NoActiveBroker { factor });
    }
    let mut racks = Racks::new(brokers, unfenced, entropy);
    Ok((0..partitions).map(|_| racks.place(wanted, entropy)).collect())
}

/// All racks, and where the next partition starts.
struct Racks {
    racks: Vec<Rack>,
    unfenced: usize,
    /// Partitions placed since the last shuffle.
    round: usize,
    start: usize,
}

impl Racks {
    fn new(brokers: &[BrokerRegistration], unfenced: usize, entropy: &mut Entropy) -> Self {
        let mut named: std::collections::BTreeMap<Option<&str>, Rack> = Default::default();
        for broker in brokers.iter().filter(|broker| !broker.in_controlled_shutdown) {
            let rack = named.entry(broker.rack.as_deref()).or_default();
            let list = if broker.fenced { &mut rack.fenced } else { &mut rack.unfenced };
            list.brokers.push(broker.id);
        }
        let mut racks: Vec<Rack> = named.into_values().collect();
        for list in racks.iter_mut().flat_map(|rack| [&mut rack.fenced, &mut rack.unfenced]) {
            list.brokers.sort();
            list.first = entropy.below(list.brokers.len() as u64) as usize;
        }
        let start = entropy.below(racks.len() as u64) as usize;
        Racks { racks, unfenced, round: 0, start }
    }

    fn place(&mut self, wanted: usize, entropy: &mut Entropy) -> Vec<NodeId> {
        if self.round == self.unfenced && self.unfenced > 1 {
            shuffle(&mut self.racks, entropy);
            for rack in &mut self.racks {
                shuffle(&mut rack.fenced.brokers, entropy);
                shuffle(&mut rack.unfenced.brokers, entropy);
            }
            self.round = 0;
        }
        let (count, round) = (self.racks.len(), self.round);
        let in_turn = (0..count).map(|step| (self.start + step) % count);
        let mut first = None;
        for at in in_turn.clone() {
            if let Some(leader) = self.racks[at].unfenced.next(round) {
                first = Some((at, leader));
                break;
            }
        }
        let Some((first_rack, leader)) = first else { return Vec::new() };
        let mut replicas = vec![leader];
        // The rack of the first replica has had its turn in the first lap.
        let mut turns = in_turn.clone().filter(|at| *at != first_rack).collect::<Vec<_>>();
        while replicas.len() < wanted {
            let before = replicas.len();
            let is_first_lap = turns.len() < count;
            for at in std::mem::replace(&mut turns, in_turn.clone().collect()) {
                if replicas.len() < wanted {
                    replicas.extend(self.racks[at].next(round));
                }
            }
            if replicas.len() == before && !is_first_lap {
                break;
            }
        }
        self.round += 1;
        self.start = (self.start + 1) % count;
        replicas
    }
}

/// The brokers of one rack.
#[derive(Default)]
struct Rack {
    unfenced: BrokerList,
    fenced: BrokerList,
}

impl Rack {
    fn next(&mut self, round: usize) -> Option<NodeId> {
        self.unfenced.next(round).or_else(|| self.fenced.next(round))
    }
}

/// Brokers that take turns.
#[derive(Default)]
struct BrokerList {
    brokers: Vec<NodeId>,
    /// Which comes first in this round.
    first: usize,
    /// How many have come in this round.
    taken: usize,
    round: usize,
}

impl BrokerList {
    /// The next broker of this round; none once all have come.
    fn next(&mut self, round: usize) -> Option<NodeId> {
        let count = self.brokers.len();
        if count == 0 {
            return None;
        }
        if self.round != round {
            (self.round, self.taken, self.first) = (round, 0, (self.first + 1) % count);
        }
        let at = (self.first + self.taken) % count;
        (self.taken < count).then(|| {
            self.taken += 1;
            self.brokers[at]
        })
    }
}

/// Fisher and Yates.
fn shuffle<T>(items: &mut [T], entropy: &mut Entropy) {
    for at in (1..items.len()).rev() {
        items.swap(at, entropy.below(at as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(id: i32, rack: Option<&str>, fenced: bool) -> BrokerRegistration {
        BrokerRegistration {
            id: NodeId(id),
            rack: rack.map(Into::into),
            epoch: 1,
            fenced,
            in_controlled_shutdown: false,
            endpoints: Vec::new(),
        }
    }

    #[test]
    fn replicas_are_distinct_and_spread_over_racks() {
        let brokers = [
            broker(1, Some("a"), false),
            broker(2, Some("a"), false),
            broker(3, Some("b"), false),
            broker(4, Some("b"), true),
        ];
        let placed = place(&brokers, 40, 2, &mut Entropy::new(3)).unwrap();
        let rack_of = |id: NodeId| brokers.iter().find(|broker| broker.id == id).unwrap().rack.clone();
        for replicas in &placed {
            assert_eq!(replicas.len(), 2);
            assert_ne!(rack_of(replicas[0]), rack_of(replicas[1]), "{replicas:?}");
            assert_ne!(replicas[0], NodeId(4), "a fenced broker never leads");
        }
        for id in [1, 2, 3] {
            assert!(placed.iter().any(|replicas| replicas[0] == NodeId(id)), "broker {id} leads something");
        }
    }

    #[test]
    fn too_few_brokers_are_refused() {
        let brokers = [broker(1, None, false)];
        assert!(matches!(
            place(&brokers, 1, 2, &mut Entropy::new(1)),
            Err(ControllerError::TooFewBrokers { factor: 2, brokers: 1 })
        ));
        let fenced = [broker(1, None, true)];
        let error = place(&fenced, 1, 1, &mut Entropy::new(1)).unwrap_err();
        assert_eq!(error, ControllerError::NoActiveBroker { factor: 1 });
        let leaving = BrokerRegistration { in_controlled_shutdown: true, ..broker(2, None, false) };
        let brokers = [broker(1, None, false), leaving];
        assert!(place(&brokers, 1, 2, &mut Entropy::new(1)).is_err(), "who shuts down gets nothing");
    }

    #[test]
    fn leaders_are_spread_evenly_over_brokers_without_racks() {
        let brokers = [0, 1, 2, 3].map(|id| broker(id, None, false));
        for seed in 0..20 {
            let placed = place(&brokers, 200, 3, &mut Entropy::new(seed)).unwrap();
            for id in brokers.iter().map(|broker| broker.id) {
                let leads = placed.iter().filter(|replicas| replicas[0] == id).count();
                let holds = placed.iter().filter(|replicas| replicas.contains(&id)).count();
                assert_eq!((leads, holds), (50, 150), "broker {}, seed {seed}", id.0);
            }
            assert!(placed.iter().collect::<std::collections::BTreeSet<_>>().len() > 12, "all is shuffled");
        }
    }

    #[test]
    fn a_partition_has_each_rack_before_any_twice() {
        let of_rack = |rack, from: i32| (from..from + 3).map(move |id| broker(id, Some(rack), false));
        let brokers: Vec<_> = of_rack("a", 0).chain(of_rack("b", 10)).chain(of_rack("c", 20)).collect();
        let placed = place(&brokers, 90, 5, &mut Entropy::new(9)).unwrap();
        for replicas in placed {
            let racks: Vec<i32> = replicas.iter().map(|id| id.0 / 10).collect();
            assert_eq!(racks[..3].iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{racks:?}");
            assert!(replicas.iter().enumerate().all(|(at, id)| !replicas[..at].contains(id)));
        }
    }

    #[test]
    fn one_unfenced_broker_leads_all_and_the_fenced_follow() {
        let brokers = [broker(0, None, true), broker(1, None, false), broker(2, None, true)];
        for replicas in place(&brokers, 20, 3, &mut Entropy::new(2)).unwrap() {
            assert_eq!(replicas[0], NodeId(1));
            assert_eq!(replicas.len(), 3);
        }
    }

    #[test]
    fn racks_whose_brokers_are_all_fenced_only_follow() {
        let brokers = [
            broker(0, Some("a"), true),
            broker(1, Some("b"), false),
            broker(2, Some("b"), false),
            broker(3, Some("c"), true),
        ];
        for replicas in place(&brokers, 20, 4, &mut Entropy::new(2)).unwrap() {
            assert!([NodeId(1), NodeId(2)].contains(&replicas[0]));
            assert_eq!(replicas.len(), 4);
        }
    }
}
