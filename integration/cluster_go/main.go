// Runs franz-go with the three brokers at HULD_BOOTSTRAP, of which some stop,
// die and come back by way of HULD_CONTROL. With an argument, only the tests
// whose name contains it. Exits with 1 if a test failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	brokers = 3
	limit   = 60 * time.Second
)

type test struct {
	name string
	run  func(context.Context, *steering) error
}

func main() {
	filter := ""
	if len(os.Args) > 1 {
		filter = os.Args[1]
	}
	tests := []test{
		{"leader_stopped_and_killed_while_producing", leaderStoppedAndKilled},
		{"brokers_restarted_in_turn_while_a_group_reads", rollingRestart},
		{"exactly_once_while_brokers_and_clients_die", exactlyOnce},
	}
	ran, failed := 0, 0
	for _, one := range tests {
		if !strings.Contains(one.name, filter) {
			continue
		}
		ran++
		if err := outcome(one); err != nil {
			failed++
			fmt.Printf("not ok %s: %s\n", one.name, strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok", one.name)
		}
	}
	if ran == 0 || failed > 0 {
		os.Exit(1)
	}
}

func outcome(one test) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	steering := &steering{away: map[int]string{}}
	defer func() { err = errors.Join(err, steering.restore()) }()
	return one.run(ctx, steering)
}

// steering does to single brokers what may happen to them.
type steering struct {
	away map[int]string // What brings each back.
}

func (s *steering) stop(broker int) error { return s.send(broker, "stop", "start") }
func (s *steering) kill(broker int) error { return s.send(broker, "kill", "start") }

func (s *steering) send(broker int, action, back string) error {
	s.away[broker] = back
	return post(broker, action)
}

func (s *steering) back(broker int) error {
	action := s.away[broker]
	delete(s.away, broker)
	return post(broker, action)
}

func (s *steering) restore() error {
	var err error
	for broker := range s.away {
		err = errors.Join(err, s.back(broker))
	}
	return err
}

func post(broker int, action string) error {
	client := http.Client{Timeout: limit}
	answer, err := client.Post(fmt.Sprintf("%s/brokers/%d/%s", os.Getenv("HULD_CONTROL"), broker, action), "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		text, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s broker %d: %s %s", action, broker, answer.Status, text)
	}
	return nil
}

func client(opts ...kgo.Opt) (*kgo.Client, error) {
	seeds := strings.Split(os.Getenv("HULD_BOOTSTRAP"), ",")
	common := []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(2 * time.Second), kgo.RequestTimeoutOverhead(5 * time.Second)}
	return kgo.NewClient(append(common, opts...)...)
}

// create makes a topic on all brokers, of which two must have a record before
// it is acknowledged.
func create(ctx context.Context, partitions int32) (string, error) {
	one, err := client()
	if err != nil {
		return "", err
	}
	defer one.Close()
	topic := fmt.Sprintf("it-go-%d", time.Now().UnixNano())
	min := "2"
	_, err = kadm.NewClient(one).CreateTopic(ctx, partitions, brokers, map[string]*string{"min.insync.replicas": &min}, topic)
	if err != nil {
		return "", err
	}
	return topic, untilInSync(ctx, topic, brokers)
}

func partitionsOf(ctx context.Context, topic string) (kadm.PartitionDetails, error) {
	one, err := client()
	if err != nil {
		return nil, err
	}
	defer one.Close()
	found, err := kadm.NewClient(one).ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return nil, err
	}
	return found[topic].Partitions, found[topic].Err
}

// untilInSync asks again and again, since nobody tells.
func untilInSync(ctx context.Context, topic string, replicas int) error {
	for {
		found, err := partitionsOf(ctx, topic)
		good := err == nil && len(found) > 0
		for _, one := range found {
			good = good && one.Leader >= 0 && len(one.ISR) == replicas
		}
		if good {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d in sync: not in time: %v %v", replicas, found, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func leader(ctx context.Context, topic string) (int, error) {
	found, err := partitionsOf(ctx, topic)
	return int(found[0].Leader), err
}

// load is an idempotent producer that sends "0", "1", "2", ... with acks=all
// until it is finished.
type load struct {
	client       *kgo.Client
	stop         chan struct{}
	done         chan struct{}
	mu           sync.Mutex
	changed      chan struct{} // Closed and made anew with each acknowledgement.
	acknowledged []int
	failed       error
}

func startLoad(topic string, partitions int) (*load, error) {
	one, err := client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.RecordDeliveryTimeout(limit), kgo.MaxBufferedRecords(20))
	if err != nil {
		return nil, err
	}
	l := &load{client: one, stop: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{})}
	go func() {
		defer close(l.done)
		for value := 0; ; value++ {
			select {
			case <-l.stop:
				return
			default:
			}
			record := &kgo.Record{Topic: topic, Partition: int32(value % partitions), Value: []byte(strconv.Itoa(value))}
			one.Produce(context.Background(), record, func(_ *kgo.Record, err error) { l.note(value, err) })
		}
	}()
	return l, nil
}

func (l *load) note(value int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.acknowledged = append(l.acknowledged, value)
	} else if l.failed == nil {
		l.failed = err
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *load) state() (int, error, chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged), l.failed, l.changed
}

// more waits until so many more are acknowledged than there are now.
func (l *load) more(ctx context.Context, count int) error {
	have, _, _ := l.state()
	wanted := have + count
	for {
		have, failed, changed := l.state()
		if failed != nil || have >= wanted {
			return failed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d acknowledged in time", have, wanted)
		}
	}
}

func (l *load) finish(ctx context.Context) error {
	close(l.stop)
	<-l.done
	err := l.client.Flush(ctx)
	l.client.Close()
	_, failed, _ := l.state()
	return errors.Join(err, failed)
}

// readAll reads a partition from its first record to its end.
func readAll(ctx context.Context, topic string, partition int32) ([]int, error) {
	from := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}
	one, err := client(kgo.ConsumePartitions(from))
	if err != nil {
		return nil, err
	}
	defer one.Close()
	ends, err := kadm.NewClient(one).ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	end, _ := ends.Lookup(topic, partition)
	var values []int
	for int64(len(values)) < end.Offset {
		fetches := one.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			value, _ := strconv.Atoi(string(record.Value))
			values = append(values, value)
		})
	}
	return values, nil
}

// checkAll sees that nothing that was acknowledged is lost, nothing comes
// twice, and all is in order.
func checkAll(ctx context.Context, l *load, topic string, partitions int) error {
	everything := map[int]bool{}
	for partition := range partitions {
		values, err := readAll(ctx, topic, int32(partition))
		if err != nil {
			return err
		}
		if !slices.IsSorted(values) || len(slices.Compact(slices.Clone(values))) != len(values) {
			return fmt.Errorf("partition %d is out of order, or has something twice: %v", partition, values)
		}
		for _, value := range values {
			everything[value] = true
		}
	}
	for _, value := range l.acknowledged {
		if !everything[value] {
			return fmt.Errorf("%d was acknowledged and is lost", value)
		}
	}
	return nil
}

func leaderStoppedAndKilled(ctx context.Context, steering *steering) error {
	topic, err := create(ctx, 1)
	if err != nil {
		return err
	}
	l, err := startLoad(topic, 1)
	if err != nil {
		return err
	}
	if err := l.more(ctx, 200); err != nil {
		return err
	}
	for _, end := range []func(int) error{steering.stop, steering.kill} {
		first, err := leader(ctx, topic)
		if err != nil {
			return err
		}
		if err := errors.Join(end(first), l.more(ctx, 200)); err != nil {
			return err
		}
		if second, err := leader(ctx, topic); err != nil || second == first {
			return fmt.Errorf("broker %d, which is down, leads: %w", first, err)
		}
		if err := errors.Join(steering.back(first), untilInSync(ctx, topic, brokers)); err != nil {
			return err
		}
	}
	return errors.Join(l.finish(ctx), checkAll(ctx, l, topic, 1))
}

func rollingRestart(ctx context.Context, steering *steering) error {
	const partitions = 3
	topic, err := create(ctx, partitions)
	if err != nil {
		return err
	}
	l, err := startLoad(topic, partitions)
	if err != nil {
		return err
	}
	member, err := client(kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.SessionTimeout(10*time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer member.Close()
	read := map[int]bool{}
	poll := func() {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		member.PollFetches(short).EachRecord(func(record *kgo.Record) {
			value, _ := strconv.Atoi(string(record.Value))
			read[value] = true
		})
	}
	for broker := 1; broker <= brokers; broker++ {
		poll()
		if err := errors.Join(l.more(ctx, 100), steering.stop(broker), l.more(ctx, 100), steering.back(broker)); err != nil {
			return err
		}
		if err := untilInSync(ctx, topic, brokers); err != nil {
			return err
		}
	}
	if err := errors.Join(l.more(ctx, 100), l.finish(ctx), checkAll(ctx, l, topic, partitions)); err != nil {
		return err
	}
	for slices.ContainsFunc(l.acknowledged, func(value int) bool { return !read[value] }) {
		if ctx.Err() != nil {
			return fmt.Errorf("the group has read %d values, not all of %d", len(read), len(l.acknowledged))
		}
		poll()
	}
	return nil
}
