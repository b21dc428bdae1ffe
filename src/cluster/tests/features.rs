//! Levels of features that are lowered and raised while the cluster works (KIP-584), and what clients see of it.

use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, ApiVersionsRequest, ApiVersionsResponse, ConsumerGroupDescribeRequest,
    EndTxnRequest, GroupId, ListGroupsRequest, ProducerId, UpdateFeaturesRequest, UpdateFeaturesResponse,
};

use super::consumer_groups::{Member, error, group, names};
use super::groups::{heartbeat, pair, text, world};
use super::transactions::{COMMITTED, Txn, read, state_of, transactional_id};
use super::*;
use crate::base::ErrorCode;

const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;

fn update(feature: &str, level: i16, kind: i8) -> FeatureUpdateKey {
    FeatureUpdateKey::default()
        .with_feature(text(feature))
        .with_max_version_level(level)
        .with_upgrade_type(kind)
}

fn updates(updates: &[(&str, i16, i8)]) -> UpdateFeaturesRequest {
    let updates = updates.iter().map(|(feature, level, kind)| update(feature, *level, *kind));
    UpdateFeaturesRequest::default().with_timeout_ms(1_000).with_feature_updates(updates.collect())
}

/// Sets a level by whatever way leads there.
pub(super) fn set(world: &mut World, feature: &str, level: i16) {
    let client = world.connect();
    let outcomes = [UPGRADE, SAFE_DOWNGRADE]
        .map(|kind| world.ask(client, 2, &updates(&[(feature, level, kind)])).error_code);
    assert!(outcomes.contains(&0), "{feature} to {level}: {outcomes:?}");
}

fn versions(world: &mut World, version: i16) -> ApiVersionsResponse {
    let client = world.connect();
    let request = ApiVersionsRequest::default()
        .with_client_software_name(text("test"))
        .with_client_software_version(text("1"));
    world.ask(client, version, &request)
}

fn finalized(response: &ApiVersionsResponse) -> Vec<(&str, i16)> {
    let rows = response.finalized_features.iter();
    let rows = rows.map(|row| {
        assert_eq!(row.min_version_level, row.max_version_level);
        (row.name.as_str(), row.max_version_level)
    });
    rows.collect()
}

fn outcome(response: &UpdateFeaturesResponse) -> ErrorCode {
    assert_eq!(response.error_code != 0, response.error_message.is_some());
    ErrorCode::from_code(response.error_code).unwrap()
}

#[test]
fn levels_are_shown_as_they_are_changed() {
    let mut world = World::new();
    let client = world.connect();
    let begun = versions(&mut world, 4);
    let all = [("eligible.leader.replicas.version", 1), ("group.version", 1), ("transaction.version", 2)];
    assert_eq!(finalized(&begun), all);
    let supported = |response: &ApiVersionsResponse| {
        let rows = response.supported_features.iter();
        rows.map(|row| (row.name.to_string(), row.min_version, row.max_version)).collect::<Vec<_>>()
    };
    assert_eq!(supported(&begun)[2], ("transaction.version".to_owned(), 0, 2));

    let lower = updates(&[("transaction.version", 1, SAFE_DOWNGRADE)]);
    assert_eq!(outcome(&world.ask(client, 2, &lower.clone().with_validate_only(true))), ErrorCode::None);
    let asked = versions(&mut world, 4);
    assert_eq!(finalized(&asked), all, "nothing was changed");
    assert_eq!(asked.finalized_features_epoch, begun.finalized_features_epoch);
    assert_eq!(outcome(&world.ask(client, 2, &lower)), ErrorCode::None);
    let lowered = versions(&mut world, 4);
    assert_eq!(finalized(&lowered)[2], ("transaction.version", 1));
    assert!(lowered.finalized_features_epoch > asked.finalized_features_epoch);

    set(&mut world, "transaction.version", 0);
    let gone = versions(&mut world, 4);
    assert_eq!(finalized(&gone), &all[..2], "a feature at 0 is as none");
    assert_eq!(supported(&gone), supported(&begun));
    let old = versions(&mut world, 3);
    assert_eq!(
        (finalized(&old), supported(&old)),
        (all[..2].to_vec(), vec![]),
        "no level of 0 for old clients"
    );
    assert!(versions(&mut world, 2).finalized_features.is_empty());
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let mut world = World::new();
    let client = world.connect();
    // As Apache Kafka 4.1.0 answers, with each version.
    let cases: [&[(&str, i16, i8)]; 11] = [
        &[("transaction.version", 1, UPGRADE)],
        &[("transaction.version", 3, UPGRADE)],
        &[("transaction.version", -1, SAFE_DOWNGRADE)],
        &[("transaction.version", 2, 0)],
        &[("transaction.version", 2, 4)],
        &[("group.version", 2, UPGRADE)],
        &[("nothing", 0, UPGRADE)],
        &[("", 1, SAFE_DOWNGRADE)],
        &[("streams.version", 1, UPGRADE)],
        &[("group.version", 0, SAFE_DOWNGRADE), ("nothing", 1, UPGRADE)],
        &[("nothing", 1, UPGRADE), ("group.version", 0, SAFE_DOWNGRADE)],
    ];
    let before = versions(&mut world, 4);
    for version in [1, 2] {
        for case in cases {
            let response = world.ask(client, version, &updates(case));
            assert_eq!(outcome(&response), ErrorCode::InvalidUpdateVersion, "{case:?}");
            assert!(response.results.is_empty());
        }
    }
    // Version 0 says in another way that a level may go down, which Kafka doesn't look at.
    let down = update("transaction.version", 1, UPGRADE).with_allow_downgrade(true);
    let down = UpdateFeaturesRequest::default().with_feature_updates(vec![down]);
    assert_eq!(outcome(&world.ask(client, 0, &down)), ErrorCode::InvalidUpdateVersion);
    assert_eq!(versions(&mut world, 4), before);

    let rows = |response: &UpdateFeaturesResponse| {
        let rows = response.results.iter();
        rows.map(|row| {
            (row.feature.to_string(), row.error_code, row.error_message.as_deref().map(str::to_owned))
        })
        .collect::<Vec<_>>()
    };
    let good = updates(&[("group.version", 1, UPGRADE), ("transaction.version", 2, UPGRADE)]);
    for (version, expected) in [(0, 2), (1, 2), (2, 0)] {
        let response = world.ask(client, version, &good);
        assert_eq!(outcome(&response), ErrorCode::None);
        assert_eq!(rows(&response).len(), expected);
    }
    let none = world.ask(client, 1, &updates(&[]));
    assert_eq!((outcome(&none), rows(&none)), (ErrorCode::None, vec![]));
    let one = world.ask(client, 1, &updates(&[("group.version", 1, UPGRADE)]));
    assert_eq!(rows(&one), [("group.version".to_owned(), 0, Some("NONE".to_owned()))]);
}

#[test]
fn producers_of_every_kind_work_at_the_levels_that_they_go_by() {
    for (level, kinds) in [(2, &[true, false][..]), (1, &[false]), (0, &[false])] {
        for bumps in kinds {
            let mut world = World::new();
            world.create_topic("t", 1, &[]);
            set(&mut world, "transaction.version", level);
            let mut txn = Txn::begin(&mut world, "id", *bumps);
            let epoch = txn.epoch;
            if !bumps {
                let refused = ErrorCode::TransactionAbortable.code();
                assert_eq!(txn.produce(&mut world, "t", "x"), refused, "the partition must be added first");
            }
            assert_eq!(txn.write(&mut world, "t", "a"), 0);
            assert_eq!(txn.end(&mut world, true), 0);
            assert_eq!(txn.write(&mut world, "t", "b"), 0);
            assert_eq!(txn.end(&mut world, false), 0);
            assert_eq!(txn.epoch, if *bumps { epoch + 2 } else { epoch }, "level {level}");
            assert_eq!(read(&mut world, "t", COMMITTED), ["a"]);

            // A newer producer aborts what is open, and what takes too long is aborted.
            assert_eq!(txn.write(&mut world, "t", "c"), 0);
            let mut new = Txn { client: world.connect(), ..txn.clone() };
            assert_eq!(new.init(&mut world, 1_000), ErrorCode::ConcurrentTransactions.code());
            assert_eq!(new.init(&mut world, 1_000), 0);
            assert_eq!(new.epoch, txn.epoch + 2, "level {level}");
            assert_eq!(new.write(&mut world, "t", "d"), 0);
            world.advance(Duration::from_secs(1));
            assert_eq!(state_of(&mut world, "id"), "CompleteAbort");
            assert_eq!(read(&mut world, "t", COMMITTED), ["a"]);
        }
    }
}

/// EndTxn v5, whatever the producer knows.
fn end_v5(world: &mut World, txn: &Txn, commit: bool) -> i16 {
    let request = EndTxnRequest::default()
        .with_transactional_id(transactional_id(txn.id))
        .with_producer_id(ProducerId(txn.producer_id))
        .with_producer_epoch(txn.epoch)
        .with_committed(commit);
    world.ask(txn.client, 5, &request).error_code
}

#[test]
fn records_of_version_0_have_no_place_for_newer_producers() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    set(&mut world, "transaction.version", 0);
    let mut new = Txn::begin(&mut world, "id", true);
    let unsupported = ErrorCode::UnsupportedVersion.code();
    assert_eq!(new.produce(&mut world, "t", "a"), unsupported, "the partition would be added");
    assert_eq!(new.produce(&mut world, "t", "a"), unsupported, "each time");
    let mut old = Txn { bumps: false, ..new.clone() };
    assert_eq!(old.write(&mut world, "t", "b"), 0, "nothing has happened to the transaction");
    assert_eq!(end_v5(&mut world, &old, true), unsupported);
    assert_eq!(state_of(&mut world, "id"), "Ongoing");
    assert_eq!(old.end(&mut world, true), 0);
    assert_eq!(read(&mut world, "t", COMMITTED), ["b"]);

    // As Kafka does, what newer producers ask is carried out from level 1 on, though they would not ask for it.
    set(&mut world, "transaction.version", 1);
    assert_eq!(old.write(&mut world, "t", "c"), 0);
    assert_eq!(end_v5(&mut world, &old, true), 0);
    assert_eq!(read(&mut world, "t", COMMITTED), ["b", "c"]);
}

#[test]
fn a_level_that_is_lowered_in_the_middle_of_a_transaction_lets_it_end() {
    for level in [1, 0] {
        let mut world = World::new();
        world.create_topic("t", 1, &[]);
        let mut txn = Txn::begin(&mut world, "id", true);
        assert_eq!(txn.write(&mut world, "t", "a"), 0);
        set(&mut world, "transaction.version", level);
        // A client that hears of it goes on as an older one.
        txn.bumps = false;
        let add = AddOffsetsToTxnRequest::default()
            .with_transactional_id(transactional_id("id"))
            .with_producer_id(ProducerId(txn.producer_id))
            .with_producer_epoch(txn.epoch)
            .with_group_id(group());
        assert_eq!(world.ask(txn.client, 3, &add).error_code, 0);
        assert_eq!(txn.end(&mut world, true), 0);
        assert_eq!(read(&mut world, "t", COMMITTED), ["a"]);
        set(&mut world, "transaction.version", 2);
        assert_eq!(txn.init(&mut world, 60_000), 0);
        txn.bumps = true;
        assert_eq!(txn.write(&mut world, "t", "b"), 0);
        assert_eq!(txn.end(&mut world, true), 0);
        assert_eq!(read(&mut world, "t", COMMITTED), ["a", "b"]);
    }
}

#[test]
fn without_group_version_there_is_no_consumer_protocol() {
    let mut world = world();
    world.create_topic("t", 1, &[]);
    let mut m = Member::joined(&mut world, "m", &["t"]);
    set(&mut world, "group.version", 0);
    let refused = m.beat(&mut world);
    assert_eq!(error(&refused), ErrorCode::UnsupportedVersion);
    let garbage = m.request().with_member_epoch(-9).with_member_id(text(""));
    assert_eq!(error(&m.ask(&mut world, &garbage)), ErrorCode::UnsupportedVersion, "before all else");
    let describe = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group(), GroupId(text("no"))]);
    let rows = world.ask(m.client, 1, &describe).groups;
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!((row.error_code, &*row.group_state), (ErrorCode::UnsupportedVersion.code(), ""));
    }
    let listed = world.ask(m.client, 5, &ListGroupsRequest::default()).groups;
    assert_eq!((&*listed[0].group_type, listed.len()), ("consumer", 1), "what there is stays");
    assert_eq!(versions(&mut world, 4).api_keys.iter().filter(|row| row.api_key == 68).count(), 1);

    set(&mut world, "group.version", 1);
    assert_eq!(error(&m.beat(&mut world)), ErrorCode::None);
    assert_eq!(error(&m.leave(&mut world)), ErrorCode::None);

    // The classic protocol is not concerned.
    set(&mut world, "group.version", 0);
    let [(client, member), _] = pair(&mut world);
    assert_eq!(heartbeat(&mut world, client, &member, 2), ErrorCode::None);
    let joining = m.joining().with_subscribed_topic_names(Some(names(&["t"])));
    assert_eq!(error(&m.ask(&mut world, &joining)), ErrorCode::UnsupportedVersion);
}
