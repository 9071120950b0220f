package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

func TestMain(m *testing.M) {
	if os.Getenv(urlVariable) != "" { // a worker
		main()
		return
	}
	testenv.Main(m)
}

func TestDemonstration(t *testing.T) {
	// It must ignore settings that name the user's own database.
	t.Setenv("PGHOST", "127.0.0.1")
	t.Setenv("PGPORT", "1")
	var out output
	if err := show(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.said.String())
	}
	for text, want := range map[string]int{
		"| counter:visits\n": 1, "The number is 160.": 1, "| deploy:production\n": 1, "deploy (pglock": processes,
		"deploys, alone": processes, "No lock is left.": 1,
	} {
		if n := strings.Count(out.said.String(), text); n != want {
			t.Errorf("the output contains %q %d times, want %d:\n%s", text, n, want, out.said.String())
		}
	}
}

// output keeps what the demonstration and its workers say, and calls at for each piece.
type output struct {
	mu   sync.Mutex
	said strings.Builder
	at   func(text string)
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at != nil {
		o.at(string(p))
	}
	return o.said.Write(p)
}

func TestDemonstrationLeavesNothingWhenItIsInterrupted(t *testing.T) {
	for _, moment := range []string{"Started", "Without a lock", "has waited"} {
		ctx, cancel := context.WithCancel(t.Context())
		out := output{at: func(text string) {
			if strings.Contains(text, moment) {
				cancel()
			}
		}}
		if err := show(ctx, &out); err == nil {
			t.Errorf("%s: it goes on", moment)
		}
		_, dir, _ := strings.Cut(out.said.String(), "with its files in ")
		dir, _, _ = strings.Cut(dir, ".\n")
		if _, err := os.Stat(dir); !os.IsNotExist(err) || !filepath.IsAbs(dir) {
			t.Errorf("%s: %q is left: %v", moment, dir, err)
		}
	}
}
