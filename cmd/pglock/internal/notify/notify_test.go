package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func events(n int) (all []journal.Event) {
	for i := range n {
		all = append(all, journal.Event{Kind: journal.WaitBegan, Key: fmt.Sprint("@", i), Number: int64(i), At: time.Unix(0, 0).UTC(),
			Session: &journal.Party{PID: 7, Application: "shop"}})
	}
	return all
}

// What happens within a period is one group, of a bounded number of events. The last one is delivered although the program
// ends. An outage is logged once.
func TestNotifyGroupsWhatHappensMeanwhile(t *testing.T) {
	var log, got strings.Builder
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		n := New(Command{}, 10*time.Second, slog.New(slog.NewTextHandler(&log, nil)))
		n.deliver = func(_ context.Context, g Group) error {
			fmt.Fprintf(&got, "%d+%d at %v, ", len(g.Events), g.Omitted, time.Since(began))
			if at := time.Since(began); at > 0 && at < time.Minute {
				return errors.New("no")
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			n.Run(ctx)
			close(ended)
		}()
		n.Add(events(1))
		synctest.Wait()
		time.Sleep(time.Second / 2)
		for range 12 {
			n.Add(events(200))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		n.Add(events(1))
		synctest.Wait()
		n.Add(events(5))
		synctest.Wait()
		cancel()
		<-ended
	})
	if got.String() != "1+0 at 0s, 1000+1000 at 10s, 400+0 at 20s, 1+0 at 1m12.5s, 5+0 at 1m12.5s, " {
		t.Errorf("it delivered %s", &got)
	}
	if strings.Count(log.String(), "failed") != 1 || strings.Count(log.String(), "works again") != 1 {
		t.Errorf("the log is\n%s", &log)
	}
}

func TestNotifyTextIsShort(t *testing.T) {
	g := Group{Omitted: 3, Events: events(1)}
	for range 199 {
		g.Events = append(g.Events, g.Events[0])
	}
	g.Events[7].Headline, g.Events[7].End = "7 shop\x1b[31m\n: frees 2", "pglock terminate 7@2026-11-25T03:52:26Z"
	lines := strings.Split(g.Text(), "\n")
	if len(lines) != maxLines+1 || !strings.HasSuffix(lines[0], ": frees 2") || strings.Contains(lines[0], "\x1b") || lines[1] != g.Events[7].End ||
		lines[maxLines] != "193 more events" {
		t.Errorf("the text is %q", lines)
	}
	if text := (Group{Events: events(100)}).Text(); strings.Count(text, "\n") != maxLines || !strings.HasSuffix(text, "\n88 more events") {
		t.Errorf("the text of many is\n%s", text)
	}
}

const hostile = `$(touch evil) ; touch evil & "'` + "`touch evil`\n\x00\x1b]0;x\x07\u202e"

func TestNotifyCommandGetsEventsAsDataOnly(t *testing.T) {
	t.Chdir(t.TempDir())
	const script = "#!/bin/sh\ncat >input\nprintf %s \"$PGLOCK_TEXT\" >text\necho \"$PGLOCK_EVENTS\" \"$@\" >args\n"
	must.Succeed(t, os.WriteFile("on-event.sh", []byte(script), 0o700)) //nolint:gosec // it is executed
	c, err := ParseCommand("./on-event.sh $HOME *  two")
	must.Succeed(t, err)
	g := Group{Events: events(1), Omitted: 2}
	g.Events[0].Key, g.Events[0].Session.Application = hostile, hostile
	must.Succeed(t, c.run(t.Context(), g))
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Clean(name))
		must.Succeed(t, err)
		return string(text)
	}
	var e journal.Event
	must.Succeed(t, json.Unmarshal([]byte(read("input")), &e))
	if e.Key != hostile || strings.Count(read("input"), "\n") != 1 {
		t.Errorf("the input is %q", read("input"))
	}
	if text := read("text"); strings.ContainsAny(text, "\x00\x1b\u202e") || strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n2 more events") {
		t.Errorf("the text is %q", text)
	}
	if args := read("args"); args != "3 $HOME * two\n" {
		t.Errorf("the arguments are %q", args)
	}
	if _, err := os.Stat("evil"); err == nil {
		t.Error("a name was executed")
	}
}

func TestNotifyCommandThatFailsOrHangs(t *testing.T) {
	fails, err := ParseCommand("false")
	must.Succeed(t, err)
	if err := fails.run(t.Context(), Group{Events: events(1)}); err == nil || err.Error() != "exit status 1" {
		t.Errorf("the error is %v", err)
	}
	hangs, err := ParseCommand("sleep 3600")
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := hangs.run(ctx, Group{Events: events(1)}); err == nil {
		t.Error("it goes on after its time")
	}
}
