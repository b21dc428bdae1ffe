// Runs franz-go, and raw requests made with its kmsg package, against the
// broker at HULD_BOOTSTRAP. With an argument, only the tests whose name
// contains it. Exits with 1 if a test failed.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// No test may take longer; one that does is reported and left behind.
const testLimit = 60 * time.Second

type test struct {
	name string
	run  func(*T)
}

func main() {
	if bootstrap() == "" {
		fmt.Fprintln(os.Stderr, "set HULD_BOOTSTRAP to the host:port of the broker to test")
		os.Exit(2)
	}
	filter := ""
	if len(os.Args) > 1 {
		filter = os.Args[1]
	}
	tests := slices.Concat(adminTests, produceTests, consumeTests, longPollTests, groupTests, transactionTests,
		rawVersionTests, rawTopicTests, rawOffsetTests, rawProduceTests, rawFetchTests)
	if filter == "--session" {
		// For integration/record.
		tests, filter = []test{{"session", session}}, ""
	}
	ran, failed := 0, 0
	for _, one := range tests {
		if !strings.Contains(one.name, filter) {
			continue
		}
		ran++
		switch reason := outcome(one).(type) {
		case nil:
			fmt.Println("ok", one.name)
		case skipped:
			fmt.Printf("skip %s: %s\n", one.name, string(reason))
		default:
			failed++
			fmt.Printf("not ok %s: %s\n", one.name, strings.ReplaceAll(fmt.Sprint(reason), "\n", " "))
		}
	}
	if ran == 0 || failed > 0 {
		os.Exit(1)
	}
}

func bootstrap() string { return os.Getenv("HULD_BOOTSTRAP") }

// onHuld is for the few places where huld differs from Kafka on purpose.
func onHuld() bool { return os.Getenv("HULD_TARGET") == "huld" }

// T ends a test when a check fails, and runs its deferred work in any case.
type T struct {
	deferred []func()
}

type failure string

// skipped says why a test doesn't apply to this broker.
type skipped string

// outcome is nil for a test that has passed, or the failure, or why it was skipped.
func outcome(one test) any {
	result := make(chan any, 1)
	go func() {
		t := &T{}
		defer func() {
			thrown := recover()
			t.cleanUp()
			switch thrown := thrown.(type) {
			case nil, failure, skipped:
				result <- thrown
			default:
				result <- failure(fmt.Sprintf("panic: %v", thrown))
			}
		}()
		one.run(t)
	}()
	select {
	case thrown := <-result:
		return thrown
	case <-time.After(testLimit):
		return failure(fmt.Sprintf("not done after %v", testLimit))
	}
}

func (t *T) cleanUp() {
	for i := len(t.deferred) - 1; i >= 0; i-- {
		t.deferred[i]()
	}
}

func (t *T) cleanup(work func()) { t.deferred = append(t.deferred, work) }

// fatalf ends the test; the reason gets the line of the test that is to blame.
func (t *T) fatalf(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	place := ""
	for skip := 1; skip < 12; skip++ {
		_, file, line, known := runtime.Caller(skip)
		if !known || strings.HasSuffix(file, "main.go") && place != "" {
			break
		}
		if name := filepath.Base(file); name != "main.go" && name != "raw.go" && name != "clients.go" {
			place = fmt.Sprintf(" (%s:%d)", name, line)
			break
		}
	}
	panic(failure(text + place))
}

func (t *T) skip(reason string) { panic(skipped(reason)) }

func (t *T) ok(err error, format string, values ...any) {
	if err != nil {
		t.fatalf("%s: %v", fmt.Sprintf(format, values...), err)
	}
}

func (t *T) that(holds bool, format string, values ...any) {
	if !holds {
		t.fatalf(format, values...)
	}
}

func equal[V comparable](t *T, expected, actual V, format string, values ...any) {
	if expected != actual {
		t.fatalf("%s: expected %v, got %v", fmt.Sprintf(format, values...), expected, actual)
	}
}

func (t *T) between(low, high, actual time.Duration, format string, values ...any) {
	if actual < low || actual > high {
		t.fatalf("%s: expected %v to %v, got %v", fmt.Sprintf(format, values...), low, high, actual)
	}
}
