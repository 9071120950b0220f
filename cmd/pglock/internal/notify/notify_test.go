package notify_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/notify"
	"github.com/pglock-toolkit/pglock/monitor"
)

func event(kind journal.Kind, number int64) journal.Event {
	return journal.Event{Kind: kind, Key: fmt.Sprint("@", number), Number: number, At: time.Unix(0, 0).UTC(), Session: &journal.Party{PID: 7, Application: "shop"}}
}

func events(n int) (all []journal.Event) {
	for i := range n {
		all = append(all, event(journal.WaitBegan, int64(i)))
	}
	return all
}

// target remembers what is delivered, and when.
type target struct {
	fails     func(attempt int) (later bool, err error)
	delivered []notify.Group
	at        []time.Duration
	began     time.Time
}

func (f *target) String() string { return "target" }

func (f *target) Deliver(_ context.Context, g notify.Group) (later bool, err error) {
	f.delivered, f.at = append(f.delivered, g), append(f.at, time.Since(f.began))
	if f.fails == nil {
		return false, nil
	}
	return f.fails(len(f.delivered))
}

// run runs a Notifier with a period of ten seconds while do adds to it, and returns what it logged.
func run(t *testing.T, to *target, do func(*notify.Notifier)) (logged string) {
	t.Helper()
	var log strings.Builder
	synctest.Test(t, func(t *testing.T) {
		to.began = time.Now()
		n := notify.New(to, 10*time.Second, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			n.Run(ctx)
			close(ended)
		}()
		do(n)
		synctest.Wait()
		cancel()
		<-ended
	})
	return log.String()
}

func TestNotifyGroupsWhatHappensMeanwhile(t *testing.T) {
	to := &target{}
	run(t, to, func(n *notify.Notifier) {
		n.Add(events(1))
		synctest.Wait()
		for range 8 {
			n.Add(events(2))
			time.Sleep(time.Second)
		}
		n.Add(nil)
		time.Sleep(time.Minute)
		n.Add(events(1))
		synctest.Wait()
		n.Add(events(5)) // is delivered although the program ends
	})
	var sizes []int
	for _, g := range to.delivered {
		sizes = append(sizes, len(g.Events))
	}
	if fmt.Sprint(sizes, to.at) != "[1 16 1 5] [0s 10s 1m8s 1m8s]" {
		t.Errorf("the groups have %v events, at %v", sizes, to.at)
	}
}

func TestNotifyKeepsABoundedNumberOfEvents(t *testing.T) {
	to := &target{}
	run(t, to, func(n *notify.Notifier) {
		n.Add(events(1))
		synctest.Wait()
		for range 10 {
			n.Add(events(300))
		}
	})
	if g := to.delivered[1]; len(g.Events) != 1000 || g.Omitted != 2000 {
		t.Errorf("%d events were kept, and %d counted", len(g.Events), g.Omitted)
	}
}

func TestNotifyTriesAgainIfThatMayHelpAndLogsAnOutageOnce(t *testing.T) {
	to := &target{fails: func(attempt int) (bool, error) {
		if attempt == 6 || attempt == 1 {
			return false, nil
		}
		return attempt != 5, errors.New("no")
	}}
	log := run(t, to, func(n *notify.Notifier) {
		for range 4 {
			n.Add(events(1))
			time.Sleep(time.Minute)
		}
	})
	// The first succeeds, the second is tried three times, the third once, and the fourth succeeds.
	if len(to.delivered) != 6 {
		t.Errorf("there were %d attempts", len(to.delivered))
	}
	if strings.Count(log, "could not be delivered") != 1 || strings.Count(log, "delivered again") != 1 {
		t.Errorf("the log is\n%s", log)
	}
}

func TestNotifyTextHasOneLineForManyEventsOfAKindAndKey(t *testing.T) {
	g := notify.Group{Omitted: 3}
	for range 200 {
		g.Events = append(g.Events, event(journal.WaitBegan, 42))
	}
	g.Events = append(g.Events, event(journal.Released, 42), event(journal.Released, 43))
	text := g.Text()
	if lines := strings.Split(text, "\n"); len(lines) != 4 || !strings.Contains(lines[0], "(and 199 more of wait-began)") ||
		!strings.Contains(lines[1], "@42: released by 7 shop") || lines[3] != "3 more events" {
		t.Errorf("the text is\n%s", text)
	}
	g.Events = events(100)
	if text := g.Text(); strings.Count(text, "\n") != 20 || !strings.HasSuffix(text, "\n83 more events") {
		t.Errorf("the text of many is\n%s", text)
	}
	g.Events = g.Events[:1]
	g.Events[0].Session.Application = "a\nb\x1b[31m" + strings.Repeat("x", 1000)
	if text := g.Text(); strings.ContainsAny(text[:200], "\n\x1b") || len(text) > 400 {
		t.Errorf("the text of a hostile name is %q", text)
	}
}

// Locks of tables have no number.
func TestNotifyTextNamesEachTable(t *testing.T) {
	var g notify.Group
	for i := range 10 {
		g.Events = append(g.Events, journal.Event{Kind: journal.WaitBegan, LockType: "relation", Key: fmt.Sprint("relation t", i%2), DatabaseOID: 5,
			At: time.Unix(0, 0).UTC(), Session: &journal.Party{PID: 7, Application: "shop"}})
	}
	if lines := strings.Split(g.Text(), "\n"); len(lines) != 2 || !strings.Contains(lines[0], "relation t0: ") ||
		!strings.Contains(lines[1], "relation t1: ") || !strings.HasSuffix(lines[1], "(and 4 more of wait-began)") {
		t.Errorf("the text is\n%s", g.Text())
	}
}

func TestNotifyTextBeginsWithTheLatestHeadlineOfEachServer(t *testing.T) {
	g := notify.Group{Events: events(3)}
	g.Events[0].Headline, g.Events[1].Headline, g.Events[2].Headline = "7 shop: frees 1", "7 shop\x1b[31m\n: frees 2", "8 desk: frees 3"
	g.Events[1].Server, g.Events[2].Server.Label = monitor.Server{Host: "192.0.2.1", Port: 5432}, "billing"
	g.Events[0].Server, g.Events[2].End = g.Events[1].Server, "pglock terminate -d billing --session 8@2026-11-25T03:52:26Z"
	lines := strings.Split(g.Text(), "\n")
	if len(lines) != 6 || !strings.HasPrefix(lines[0], "192.0.2.1:5432: 7 shop") || !strings.HasSuffix(lines[0], ": frees 2") ||
		lines[1] != "billing: 8 desk: frees 3" || lines[2] != g.Events[2].End || strings.Contains(g.Text(), "\x1b") {
		t.Errorf("the text is %q", lines)
	}
}
