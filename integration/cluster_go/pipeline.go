package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pipelinePartitions = 4
	round              = 100
)

var errDropped = errors.New("dropped")

// world has two topics, a group that reads one, and a reader of what is
// committed in the other.
type world struct {
	ctx      context.Context
	steering *steering
	from, to string
	group    string
	source   *kgo.Client
	reader   *committedReader
	fed      int
}

func newWorld(ctx context.Context, steering *steering) (*world, error) {
	from, err := create(ctx, pipelinePartitions)
	if err != nil {
		return nil, err
	}
	to, err := create(ctx, pipelinePartitions)
	if err != nil {
		return nil, err
	}
	source, err := client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	reader, err := newCommittedReader(to)
	if err != nil {
		source.Close()
		return nil, err
	}
	return &world{ctx: ctx, steering: steering, from: from, to: to, group: "group-" + from, source: source, reader: reader}, nil
}

func (w *world) close() {
	w.reader.client.Close()
	w.source.Close()
}

// feed writes a round of values more, in turn to all partitions.
func (w *world) feed() error {
	var records []*kgo.Record
	for range round {
		records = append(records, &kgo.Record{Topic: w.from, Partition: int32(w.fed % pipelinePartitions),
			Value: []byte(strconv.Itoa(w.fed))})
		w.fed++
	}
	return w.source.ProduceSync(w.ctx, records...).FirstErr()
}

// crash ends a broker without a goodbye and starts it at once.
func (w *world) crash(broker int) error {
	return errors.Join(w.steering.kill(broker), w.steering.back(broker))
}

func (w *world) untilInSync() error {
	for _, topic := range []string{w.from, w.to, "__transaction_state", "__consumer_offsets"} {
		if err := untilInSync(w.ctx, topic, brokers); err != nil {
			return err
		}
	}
	return nil
}

// withAdmin asks with a client that knows nothing from before.
func (w *world) withAdmin(ask func(*kadm.Client) error) error {
	one, err := client()
	if err != nil {
		return err
	}
	defer one.Close()
	return ask(kadm.NewClient(one))
}

func (w *world) transactionCoordinator(id string) (int, error) {
	broker := 0
	err := w.withAdmin(func(admin *kadm.Client) error {
		found := admin.FindTxnCoordinators(w.ctx, id)[id]
		broker = int(found.NodeID)
		return found.Err
	})
	return broker, err
}

func (w *world) describedGroup() (kadm.DescribedGroup, error) {
	var group kadm.DescribedGroup
	err := w.withAdmin(func(admin *kadm.Client) error {
		found, err := admin.DescribeGroups(w.ctx, w.group)
		group = found[w.group]
		return errors.Join(err, group.Err)
	})
	return group, err
}

// untilShared waits until each of two members has half of the partitions. It
// asks again and again, since nobody tells.
func (w *world) untilShared() error {
	for {
		group, err := w.describedGroup()
		shared := err == nil && group.State == "Stable" && len(group.Members) == 2
		for _, member := range group.Members {
			assigned, _ := member.Assigned.AsConsumer()
			shared = shared && assigned != nil && len(assigned.Topics) == 1 &&
				len(assigned.Topics[0].Partitions) == pipelinePartitions/2
		}
		if shared {
			return nil
		}
		select {
		case <-w.ctx.Done():
			return fmt.Errorf("two members with half of the partitions: not in time: %+v %w", group, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// checkAll sees that all that was fed has come once, that another reader sees
// the same, and that the group's offsets are at the ends.
func (w *world) checkAll() error {
	again, err := newCommittedReader(w.to)
	if err != nil {
		return err
	}
	defer again.client.Close()
	if err := again.until(w.ctx, w.fed); err != nil {
		return err
	}
	for value := range w.fed {
		if !w.reader.values[value] || !again.values[value] {
			return fmt.Errorf("%d was never transformed", value)
		}
	}
	return w.withAdmin(func(admin *kadm.Client) error {
		offsets, err := admin.FetchOffsets(w.ctx, w.group)
		if err != nil {
			return err
		}
		for partition := range int32(pipelinePartitions) {
			found, _ := offsets.Lookup(w.from, partition)
			if found.At != int64(w.fed/pipelinePartitions) {
				return fmt.Errorf("partition %d is committed up to %d of %d", partition, found.At, w.fed/pipelinePartitions)
			}
		}
		return nil
	})
}

// committedReader reads what is committed in a topic: whole numbers with "!"
// after them, ascending in each partition, once each.
type committedReader struct {
	client *kgo.Client
	values map[int]bool
	last   map[int32]int
}

func newCommittedReader(topic string) (*committedReader, error) {
	from := map[int32]kgo.Offset{}
	for partition := range int32(pipelinePartitions) {
		from[partition] = kgo.NewOffset().At(0)
	}
	one, err := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	return &committedReader{client: one, values: map[int]bool{}, last: map[int32]int{}}, err
}

func (r *committedReader) until(ctx context.Context, count int, pipelines ...*pipeline) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for len(r.values) < count {
		for _, one := range pipelines {
			select {
			case <-one.done:
				return fmt.Errorf("a client has ended: %w", one.failed)
			default:
			}
		}
		short, cancel := context.WithTimeout(limited, 200*time.Millisecond)
		fetches := r.client.PollFetches(short)
		cancel()
		if limited.Err() != nil {
			return fmt.Errorf("%d of %d values committed in time", len(r.values), count)
		}
		if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("read what is committed: %w", err)
		}
		for _, record := range fetches.Records() {
			if err := r.note(record); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *committedReader) note(record *kgo.Record) error {
	text := string(record.Value)
	where := fmt.Sprintf("%s at %d:%d", text, record.Partition, record.Offset)
	value, err := strconv.Atoi(strings.TrimSuffix(text, "!"))
	if err != nil || !strings.HasSuffix(text, "!") {
		return fmt.Errorf("%s is no number that was transformed once", where)
	}
	if before, any := r.last[record.Partition]; any && before >= value || r.values[value] {
		return fmt.Errorf("%s comes a second time, or after %d", where, before)
	}
	r.last[record.Partition] = value
	r.values[value] = true
	return nil
}

// pipeline reads values as a member of a group and writes each with "!" after
// it to the same partition of another topic, a batch a transaction, until it
// is finished or dropped. An error that franz-go says ends a session gives it
// a new one, as its documentation has it.
type pipeline struct {
	pauses  chan pause // What is sent here has a transaction wait before its end.
	stop    chan struct{}
	dropped bool
	done    chan struct{}
	failed  error
}

// pause says when a transaction has come to where it waits, and is told when
// it may go on.
type pause struct {
	reached, resume chan struct{}
}

func startPipeline(w *world, name string) *pipeline {
	p := &pipeline{pauses: make(chan pause, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for sessions := 0; sessions < 10; sessions++ {
			p.failed = p.session(w, name)
			if p.failed == nil || errors.Is(p.failed, errDropped) {
				return
			}
			fmt.Fprintf(os.Stderr, "%s begins a new session after: %v\n", name, p.failed)
		}
	}()
	return p
}

func (p *pipeline) session(w *world, name string) error {
	seeds := strings.Split(os.Getenv("HULD_BOOTSTRAP"), ",")
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(100*time.Millisecond),
		kgo.MetadataMaxAge(2*time.Second), kgo.RequestTimeoutOverhead(5*time.Second), kgo.TransactionalID(w.group+"-"+name),
		kgo.ConsumerGroup(w.group), kgo.InstanceID(name), kgo.SessionTimeout(10*time.Second),
		kgo.HeartbeatInterval(300*time.Millisecond), kgo.ConsumeTopics(w.from),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer session.Close()
	for {
		select {
		case <-p.stop:
			return nil
		default:
		}
		short, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
		records := session.PollRecords(short, 10).Records()
		cancel()
		if len(records) == 0 {
			continue
		}
		if err := p.transform(w, session, records); err != nil {
			return err
		}
	}
}

func (p *pipeline) transform(w *world, session *kgo.GroupTransactSession, records []*kgo.Record) error {
	if err := session.Begin(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	var made []*kgo.Record
	for _, record := range records {
		made = append(made, &kgo.Record{Topic: w.to, Partition: record.Partition, Value: append(record.Value, '!')})
	}
	end := kgo.TryCommit
	if err := session.ProduceSync(w.ctx, made...).FirstErr(); err != nil {
		fmt.Fprintf(os.Stderr, "aborts after: %v\n", err)
		end = kgo.TryAbort
	}
	select {
	case pause := <-p.pauses:
		close(pause.reached)
		<-pause.resume
	default:
	}
	if p.dropped {
		return errDropped
	}
	if _, err := session.End(w.ctx, end); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	return nil
}

// paused has the next transaction wait before its end, and feeds the world
// meanwhile; closing what it gives lets it go on.
func (p *pipeline) paused(w *world) (chan struct{}, error) {
	asked := pause{reached: make(chan struct{}), resume: make(chan struct{})}
	// Before there is anything to read, or it might be through with it.
	p.pauses <- asked
	if err := w.feed(); err != nil {
		return nil, err
	}
	select {
	case <-asked.reached:
		return asked.resume, nil
	case <-p.done:
		return nil, fmt.Errorf("a client has ended: %w", p.failed)
	case <-w.ctx.Done():
		return nil, errors.New("no transaction came in time")
	}
}

// drop ends it in the middle of its transaction, as a process ends that is
// killed.
func (p *pipeline) drop(w *world) error {
	resume, err := p.paused(w)
	if err != nil {
		return err
	}
	p.dropped = true
	close(resume)
	<-p.done
	return nil
}

func (p *pipeline) finish() error {
	close(p.stop)
	<-p.done
	return p.failed
}

// exactlyOnce has the coordinators die in the middle of a transaction each, one
// of them for a while, and then the client.
func exactlyOnce(ctx context.Context, steering *steering) error {
	w, err := newWorld(ctx, steering)
	if err != nil {
		return err
	}
	defer w.close()
	one, other := startPipeline(w, "one"), startPipeline(w, "other")
	id := w.group + "-one"
	if err := w.untilShared(); err != nil {
		return err
	}
	killed := 0
	for _, step := range []func() error{
		func() (err error) {
			if killed, err = w.transactionCoordinator(id); err != nil {
				return err
			}
			return w.steering.kill(killed)
		},
		func() error {
			group, err := w.describedGroup()
			return errors.Join(err, w.crash(int(group.Coordinator.NodeID)))
		},
		func() error {
			broker, err := leader(ctx, w.to)
			return errors.Join(err, w.crash(broker))
		},
	} {
		resume, err := one.paused(w)
		if err != nil {
			return err
		}
		err = step()
		close(resume)
		if err := errors.Join(err, w.reader.until(ctx, w.fed, one, other)); err != nil {
			return err
		}
		if killed != 0 {
			err = w.steering.back(killed)
			killed = 0
		}
		if err := errors.Join(err, w.untilInSync()); err != nil {
			return err
		}
	}
	if err := one.drop(w); err != nil {
		return err
	}
	one = startPipeline(w, "one")
	if err := w.reader.until(ctx, w.fed, one, other); err != nil {
		return err
	}
	return errors.Join(one.finish(), other.finish(), w.checkAll())
}
