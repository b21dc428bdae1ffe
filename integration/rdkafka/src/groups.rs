//! Consumer groups.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance, StreamConsumer};
use rdkafka::message::Message;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clients::{
    CALL_LIMIT, Settings, admin, configured, created, fill, filled, options, place, unique_name,
};
use crate::{Outcome, Tests, equal, text};

pub fn tests() -> Tests {
    vec![
        ("group_eager", Box::pin(share_and_take_over("range"))),
        ("group_cooperative", Box::pin(share_and_take_over("cooperative-sticky"))),
        ("group_manual_commit", Box::pin(manual_commit())),
        ("group_automatic_commit", Box::pin(automatic_commit())),
        ("group_static_member", Box::pin(static_member())),
        ("group_admin", Box::pin(group_admin())),
    ]
}

/// Tells whoever waits for a member that something has changed.
struct Changes {
    rebalances: AtomicUsize,
    changed: watch::Sender<()>,
}

impl ClientContext for Changes {}

impl ConsumerContext for Changes {
    fn post_rebalance(&self, _: &BaseConsumer<Self>, _: &Rebalance<'_>) {
        self.rebalances.fetch_add(1, Ordering::Relaxed);
        self.changed.send_replace(());
    }
}

/// A member that consumes until it leaves.
struct Member {
    consumer: Arc<StreamConsumer<Changes>>,
    records: Arc<Mutex<Vec<(i32, i64)>>>,
    consuming: JoinHandle<()>,
}

impl Member {
    fn join(group: &str, topic: &str, changed: &watch::Sender<()>, settings: Settings) -> Outcome<Self> {
        let mut config = configured(&[
            ("group.id", group),
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "false"),
        ]);
        config.set("heartbeat.interval.ms", "200").set("session.timeout.ms", "10000");
        for (key, value) in settings {
            config.set(*key, *value);
        }
        let context = Changes { rebalances: AtomicUsize::new(0), changed: changed.clone() };
        let consumer: Arc<StreamConsumer<Changes>> =
            Arc::new(config.create_with_context(context).map_err(text)?);
        consumer.subscribe(&[topic]).map_err(text)?;
        let records = Arc::new(Mutex::new(Vec::new()));
        let (from, to, changed) = (Arc::clone(&consumer), Arc::clone(&records), changed.clone());
        let consuming = tokio::spawn(async move {
            // An error is left to the test, whose record doesn't come then.
            while let Ok(message) = from.recv().await {
                to.lock().expect("no test panics with it").push((message.partition(), message.offset()));
                changed.send_replace(());
            }
        });
        Ok(Self { consumer, records, consuming })
    }

    fn owned(&self) -> BTreeSet<i32> {
        let assignment = self.consumer.assignment().unwrap_or_else(|_| TopicPartitionList::new());
        assignment.elements().iter().map(|each| each.partition()).collect()
    }

    fn records(&self) -> Vec<(i32, i64)> {
        self.records.lock().expect("no test panics with it").clone()
    }

    fn rebalances(&self) -> usize {
        self.consumer.context().rebalances.load(Ordering::Relaxed)
    }

    /// Closes the consumer, which leaves the group unless the member is a static one.
    async fn leave(self) -> Outcome {
        self.consuming.abort();
        // It was aborted; what it says of that is no news.
        let _ = self.consuming.await;
        let consumer = self.consumer;
        tokio::task::spawn_blocking(move || drop(consumer)).await.map_err(text)
    }
}

/// Waits until it holds, looking again whenever a member has told of a change.
async fn until(changes: &mut watch::Receiver<()>, what: &str, holds: impl Fn() -> bool) -> Outcome {
    let waiting = async {
        loop {
            changes.borrow_and_update();
            if holds() {
                return Ok(());
            }
            changes.changed().await.map_err(text)?;
        }
    };
    tokio::time::timeout(CALL_LIMIT, waiting)
        .await
        .unwrap_or_else(|_| Err(format!("{what}: not within {CALL_LIMIT:?}")))
}

/// Two members share four partitions; when one leaves, the other has them all, and every record comes once.
async fn share_and_take_over(strategy: &'static str) -> Outcome {
    let (topic, group) = (created(4).await?, unique_name());
    let (changed, mut changes) = watch::channel(());
    let settings = [("partition.assignment.strategy", strategy)];
    let first = Member::join(&group, &topic, &changed, &settings)?;
    until(&mut changes, "the first has all", || first.owned().len() == 4).await?;
    let second = Member::join(&group, &topic, &changed, &settings)?;
    until(&mut changes, "both have half", || first.owned().len() == 2 && second.owned().len() == 2).await?;
    equal("partitions of both", 4, first.owned().union(&second.owned()).count())?;
    for partition in 0..4 {
        fill(&topic, partition, 10).await?;
    }
    until(&mut changes, "all records", || first.records().len() + second.records().len() == 40).await?;
    equal("records of the first", 20, first.records().len())?;
    for member in [&first, &second] {
        member.consumer.commit_consumer_state(CommitMode::Sync).map_err(text)?;
    }
    second.leave().await?;
    until(&mut changes, "the first has all again", || first.owned().len() == 4).await?;
    fill(&topic, 0, 5).await?;
    fill(&topic, 3, 5).await?;
    until(&mut changes, "the records after", || first.records().len() >= 30).await?;
    let records = first.records();
    equal("records that came once", records.len(), records.iter().collect::<BTreeSet<_>>().len())?;
    first.leave().await
}

async fn manual_commit() -> Outcome {
    let (topic, group) = (filled(10).await?, unique_name());
    let (changed, mut changes) = watch::channel(());
    let first = Member::join(&group, &topic, &changed, &[])?;
    until(&mut changes, "all records", || first.records().len() == 10).await?;
    first.consumer.commit(&place(&topic, 0, Offset::Offset(4))?, CommitMode::Sync).map_err(text)?;
    // Not kept, since librdkafka doesn't end a client of whose partitions somebody keeps a list.
    let committed = first.consumer.committed(CALL_LIMIT).map_err(text)?.elements()[0].offset();
    equal("committed", Offset::Offset(4), committed)?;
    first.leave().await?;
    let second = Member::join(&group, &topic, &changed, &[])?;
    until(&mut changes, "the rest", || second.records().len() >= 6).await?;
    equal("records after resuming", (4..10).map(|offset| (0, offset)).collect(), second.records())?;
    second.leave().await
}

async fn automatic_commit() -> Outcome {
    let (topic, group) = (filled(10).await?, unique_name());
    let (changed, mut changes) = watch::channel(());
    let first = Member::join(&group, &topic, &changed, &[("enable.auto.commit", "true")])?;
    until(&mut changes, "all records", || first.records().len() == 10).await?;
    // What was read is committed when it leaves.
    first.leave().await?;
    fill(&topic, 0, 3).await?;
    let second = Member::join(&group, &topic, &changed, &[])?;
    until(&mut changes, "the new ones", || second.records().len() >= 3).await?;
    equal("first record after resuming", (0, 10), second.records()[0])?;
    second.leave().await
}

/// A static member that comes back within its session has its partitions again, and nobody else notices.
async fn static_member() -> Outcome {
    let (topic, group) = (created(4).await?, unique_name());
    let (changed, mut changes) = watch::channel(());
    let stays = Member::join(&group, &topic, &changed, &[("group.instance.id", "stays")])?;
    until(&mut changes, "all partitions", || stays.owned().len() == 4).await?;
    let goes = Member::join(&group, &topic, &changed, &[("group.instance.id", "goes")])?;
    until(&mut changes, "both have half", || stays.owned().len() == 2 && goes.owned().len() == 2).await?;
    let (before, rebalances) = (goes.owned(), stays.rebalances());
    goes.leave().await?;
    let back = Member::join(&group, &topic, &changed, &[("group.instance.id", "goes")])?;
    until(&mut changes, "its partitions again", || back.owned().len() == 2).await?;
    equal("partitions of the one that is back", before, back.owned())?;
    for partition in 0..4 {
        fill(&topic, partition, 1).await?;
    }
    until(&mut changes, "records", || stays.records().len() == 2 && back.records().len() == 2).await?;
    equal("rebalances of the other", rebalances, stays.rebalances())?;
    back.leave().await?;
    stays.leave().await
}

async fn group_admin() -> Outcome {
    let (topic, group) = (filled(3).await?, unique_name());
    let (changed, mut changes) = watch::channel(());
    let member = Member::join(&group, &topic, &changed, &[("client.id", "its-name")])?;
    until(&mut changes, "all records", || member.records().len() == 3).await?;
    check_listed(&member, &group)?;
    let admin = admin()?;
    let deleted = admin.delete_groups(&[&group], &options()).await.map_err(text)?;
    equal("deletion with a member", vec![Err((group.clone(), RDKafkaErrorCode::NonEmptyGroup))], deleted)?;
    member.leave().await?;
    let deleted = admin.delete_groups(&[&group], &options()).await.map_err(text)?;
    equal("deletion", vec![Ok(group.clone())], deleted)?;
    let deleted = admin.delete_groups(&[&group], &options()).await.map_err(text)?;
    equal("second deletion", vec![Err((group, RDKafkaErrorCode::GroupIdNotFound))], deleted)
}

fn check_listed(member: &Member, group: &str) -> Outcome {
    let list = member.consumer.fetch_group_list(Some(group), CALL_LIMIT).map_err(text)?;
    let listed = list.groups().first().ok_or("the group is not listed")?;
    equal(
        "state",
        ("Stable", "consumer", "range"),
        (listed.state(), listed.protocol_type(), listed.protocol()),
    )?;
    equal("its members", vec!["its-name"], listed.members().iter().map(|each| each.client_id()).collect())
}
