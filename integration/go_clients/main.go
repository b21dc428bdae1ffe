// Runs sarama and segmentio/kafka-go against the broker at HULD_BOOTSTRAP: the
// list of README.md, and groups. With an argument, only the tests whose name
// contains it. Exits with 1 if a test failed.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	testLimit       = 30 * time.Second
	waitLimit       = 10 * time.Second
	maxMessageBytes = 1_048_588 // The broker's default.
)

// Record N of a filled topic is N seconds later than this.
var start = time.UnixMilli(1_700_000_000_000)

type test struct {
	name string
	run  func(*T)
}

func main() {
	filter := ""
	if len(os.Args) > 1 {
		filter = os.Args[1]
	}
	ran, failed := 0, 0
	for _, one := range slices.Concat(saramaTests, kafkaGoTests) {
		if !strings.Contains(one.name, filter) {
			continue
		}
		ran++
		began := time.Now()
		if err := outcome(one); err != nil {
			failed++
			fmt.Printf("not ok %s: %s\n", one.name, strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok", one.name)
		}
		fmt.Fprintf(os.Stderr, "  %s took %.2f s\n", one.name, time.Since(began).Seconds())
	}
	if ran == 0 || failed > 0 {
		os.Exit(1)
	}
}

func bootstrap() string { return os.Getenv("HULD_BOOTSTRAP") }

// T ends a test when a check fails, and runs its deferred work in any case.
type T struct{ deferred []func() }

type failure struct{ error }

func outcome(one test) error {
	result := make(chan error, 1)
	go func() {
		t := &T{}
		defer func() {
			thrown := recover()
			for _, work := range slices.Backward(t.deferred) {
				work()
			}
			switch thrown := thrown.(type) {
			case nil:
				result <- nil
			case failure:
				result <- thrown
			default:
				result <- fmt.Errorf("panic: %v", thrown)
			}
		}()
		one.run(t)
	}()
	select {
	case err := <-result:
		return err
	case <-time.After(testLimit):
		return fmt.Errorf("not done after %v", testLimit)
	}
}

func (t *T) cleanup(work func()) { t.deferred = append(t.deferred, work) }

// that ends the test unless the condition holds; the reason gets the lines that lead there.
func (t *T) that(holds bool, format string, values ...any) {
	if holds {
		return
	}
	text := fmt.Sprintf(format, values...)
	for skip := 1; skip < 12; skip++ {
		_, file, line, _ := runtime.Caller(skip)
		if name := filepath.Base(file); name == "sarama.go" || name == "kafka_go.go" {
			text += fmt.Sprintf(" (%s:%d)", name, line)
		}
	}
	panic(failure{errors.New(text)})
}

func (t *T) ok(err error, what string) { t.that(err == nil, "%s: %v", what, err) }

func (t *T) fails(expected, err error, what string) {
	t.that(errors.Is(err, expected), "%s: expected %v, got %v", what, expected, err)
}

func equal(t *T, expected, actual any, what string) {
	t.that(reflect.DeepEqual(expected, actual), "%s: expected %v, got %v", what, expected, actual)
}

// A limit for one call, or for all of a test's waits.
func limited(t *T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.cleanup(cancel)
	return ctx
}

// settled waits for what Kafka brings about a moment after its answer. On huld it must hold at once.
func settled(t *T, what string, holds func() bool) {
	end := time.Now().Add(waitLimit)
	for !holds() {
		t.that(os.Getenv("HULD_TARGET") != "huld" && time.Now().Before(end), "%s", what)
		time.Sleep(10 * time.Millisecond)
	}
}

// watched lets a test wait for what other goroutines bring about: they call changed.
type watched struct{ changes chan struct{} }

func newWatched() watched { return watched{make(chan struct{}, 1)} }

func (w watched) changed() {
	select {
	case w.changes <- struct{}{}:
	default:
	}
}

func (w watched) until(t *T, what string, holds func() bool) {
	limit := time.After(waitLimit)
	for !holds() {
		select {
		case <-w.changes:
		case <-limit:
			t.that(holds(), "%s: not within %v", what, waitLimit)
		}
	}
}

func topicName() string {
	var random [8]byte
	_, _ = rand.Read(random[:])
	return fmt.Sprintf("it-%x", random)
}

// sample is a record as both clients can express it.
type sample struct {
	key, value []byte
	headers    [][2]string
	at         time.Time
}

func samples() []sample {
	made := []sample{
		{[]byte("key"), []byte("value"), [][2]string{{"h", "1"}, {"h", "2"}, {"e", ""}}, start},
		{nil, []byte("no key"), nil, start},
		{[]byte("no value"), nil, [][2]string{{"h", strings.Repeat("\x00\xff", 100)}}, start},
		{[]byte("snö"), bytes.Repeat([]byte("long "), 20_000), [][2]string{{"unicode ✓", "✓"}}, start},
	}
	for i := range 300 {
		made = append(made, sample{fmt.Appendf(nil, "k%d", i), bytes.Repeat(fmt.Appendf(nil, "value %d ", i), 10), nil, start})
	}
	for i := range made {
		made[i].at = start.Add(time.Duration(i) * 7 * time.Millisecond)
	}
	return made
}

func (s sample) same(t *T, number int, got sample) {
	what := fmt.Sprintf("record %d", number)
	t.that(bytes.Equal(s.key, got.key) && (s.key == nil) == (got.key == nil), "%s: key %q", what, got.key)
	t.that(bytes.Equal(s.value, got.value) && (s.value == nil) == (got.value == nil), "%s: value of %d bytes", what, len(got.value))
	t.that(slices.Equal(s.headers, got.headers), "%s: headers %v", what, got.headers)
	t.that(s.at.Equal(got.at), "%s: timestamp %v", what, got.at)
}
