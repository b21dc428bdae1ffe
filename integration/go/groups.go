package main

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var groupTests = []test{
	{"group_eager", func(t *T) { groupOfTwo(t, kgo.RangeBalancer()) }},
	{"group_cooperative", func(t *T) { groupOfTwo(t, kgo.CooperativeStickyBalancer()) }},
	{"group_manual_commit", testGroupManualCommit},
	{"group_automatic_commit", testGroupAutomaticCommit},
	{"group_static_member", testGroupStaticMember},
	{"group_admin", testGroupAdmin},
	{"consumer_group_range", func(t *T) { consumerGroupOfTwo(t, kgo.RangeBalancer()) }},
	{"consumer_group_uniform", func(t *T) { consumerGroupOfTwo(t, kgo.StickyBalancer()) }},
}

func member(t *T, group, topic string, options ...kgo.Opt) *kgo.Client {
	return client(t, append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(200 * time.Millisecond), kgo.DisableAutoCommit(),
	}, options...)...)
}

// owners awaits that a group is stable with so many members, and gives the
// number of partitions of each.
func owners(t *T, group string, members int) []int {
	from, end := admin(t), time.Now().Add(waitLimit)
	for {
		described, err := from.DescribeGroups(limited(t), group)
		t.ok(err, "describe the group")
		if found := described[group]; found.State == "Stable" && len(found.Members) == members {
			var counts []int
			for _, one := range found.Members {
				assigned, _ := one.Assigned.AsConsumer()
				count := 0
				for _, topic := range assigned.Topics {
					count += len(topic.Partitions)
				}
				counts = append(counts, count)
			}
			if slices.Min(counts) > 0 {
				return counts
			}
		}
		t.that(time.Now().Before(end), "the group is not stable with %d members: %v", members, described[group])
		time.Sleep(20 * time.Millisecond)
	}
}

// groupOfTwo lets two share four partitions; when one leaves, the other reads
// all of them, and nothing comes twice.
func groupOfTwo(t *T, balancer kgo.GroupBalancer) {
	topic, group := newTopic(t, 4), topicName()
	first := member(t, group, topic, kgo.Balancers(balancer))
	second := member(t, group, topic, kgo.Balancers(balancer))
	counts := owners(t, group, 2)
	t.that(slices.Equal(counts, []int{2, 2}), "partitions of the members: %v", counts)
	for partition := range int32(4) {
		fill(t, topic, partition, 10)
	}
	read(t, first, 20)
	read(t, second, 20)
	t.ok(first.CommitUncommittedOffsets(limited(t)), "commit of the first")
	t.ok(second.CommitUncommittedOffsets(limited(t)), "commit of the second")
	second.Close()
	counts = owners(t, group, 1)
	t.that(slices.Equal(counts, []int{4}), "partitions of the one that is left: %v", counts)
	fill(t, topic, 0, 3)
	fill(t, topic, 3, 3)
	read(t, first, 6)
}

// youngMember is a member of the consumer protocol (KIP-848), with how many
// partitions it has.
func youngMember(t *T, group, topic string, balancer kgo.GroupBalancer) (*kgo.Client, *atomic.Int64) {
	owned := new(atomic.Int64)
	count := func(sign int64) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			owned.Add(sign * int64(len(partitions[topic])))
		}
	}
	return member(t, group, topic, kgo.ServerSideBalancer(), kgo.Balancers(balancer),
		kgo.OnPartitionsAssigned(count(1)), kgo.OnPartitionsRevoked(count(-1)), kgo.OnPartitionsLost(count(-1))), owned
}

// consumerGroupOfTwo is as groupOfTwo, where the broker assigns.
func consumerGroupOfTwo(t *T, balancer kgo.GroupBalancer) {
	topic, group := newTopic(t, 4), topicName()
	await := func(what string, counts []int64, owned ...*atomic.Int64) {
		end := time.Now().Add(waitLimit)
		for {
			var found []int64
			for _, one := range owned {
				found = append(found, one.Load())
			}
			if slices.Equal(found, counts) {
				return
			}
			t.that(time.Now().Before(end), "%s: partitions of the members are %v", what, found)
			time.Sleep(20 * time.Millisecond)
		}
	}
	first, ofFirst := youngMember(t, group, topic, balancer)
	await("alone", []int64{4}, ofFirst)
	second, ofSecond := youngMember(t, group, topic, balancer)
	await("together", []int64{2, 2}, ofFirst, ofSecond)
	for partition := range int32(4) {
		fill(t, topic, partition, 10)
	}
	read(t, first, 20)
	read(t, second, 20)
	t.ok(first.CommitUncommittedOffsets(limited(t)), "commit of the first")
	t.ok(second.CommitUncommittedOffsets(limited(t)), "commit of the second")
	second.Close()
	await("alone again", []int64{4}, ofFirst)
	fill(t, topic, 0, 3)
	fill(t, topic, 3, 3)
	read(t, first, 6)
}

func testGroupManualCommit(t *T) {
	topic, group := newTopic(t, 1), topicName()
	fill(t, topic, 0, 10)
	first := member(t, group, topic)
	records := read(t, first, 10)
	t.ok(first.CommitRecords(limited(t), records[:4]...), "commit")
	first.Close()
	equal(t, int64(4), read(t, member(t, group, topic), 6)[0].Offset, "first offset after resuming")
}

func testGroupAutomaticCommit(t *T) {
	topic, group := newTopic(t, 1), topicName()
	fill(t, topic, 0, 10)
	// What was polled is committed when the member leaves.
	first := client(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(100*time.Millisecond))
	read(t, first, 10)
	nothing(t, first, 300*time.Millisecond)
	first.Close()
	fill(t, topic, 0, 2)
	equal(t, int64(10), read(t, member(t, group, topic), 2)[0].Offset, "first offset after resuming")
}

func testGroupStaticMember(t *T) {
	topic, group := newTopic(t, 2), topicName()
	stays := member(t, group, topic, kgo.InstanceID("stays"))
	goes := member(t, group, topic, kgo.InstanceID("goes"))
	owners(t, group, 2)
	_, before := stays.GroupMetadata()
	goes.Close()
	back := member(t, group, topic, kgo.InstanceID("goes"))
	fill(t, topic, 0, 1)
	fill(t, topic, 1, 1)
	read(t, back, 1)
	read(t, stays, 1)
	_, after := stays.GroupMetadata()
	equal(t, before, after, "generation after a static member came back")
}

func testGroupAdmin(t *T) {
	topic, group := newTopic(t, 1), topicName()
	fill(t, topic, 0, 10)
	from := admin(t)
	one := member(t, group, topic)
	t.ok(one.CommitRecords(limited(t), read(t, one, 10)...), "commit")
	lags, err := from.Lag(limited(t), group)
	t.ok(err, "lag")
	equal(t, int64(0), lags[group].Lag.Total(), "lag")
	deleted, err := from.DeleteGroups(limited(t), group)
	t.ok(err, "delete the group")
	fails(t, kerr.NonEmptyGroup, deleted[group].Err, "deletion of a group with a member")
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	t.ok(one.LeaveGroupContext(ctx), "leave")
	deleted, err = from.DeleteGroups(limited(t), group)
	t.ok(err, "delete the group")
	t.ok(deleted[group].Err, "delete the group once it is empty")
}
