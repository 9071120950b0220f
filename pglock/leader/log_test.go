package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

// logged is a slog.Handler that keeps messages and their errors.
type logged struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func newLog() *logged { return &logged{Handler: slog.DiscardHandler} }

func (l *logged) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// about returns the lines that contain text.
func (l *logged) about(text string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

const often = time.Millisecond

func TestAnElectorThatHasNoListenerLogsAWrongPasswordOnce(t *testing.T) {
	config := testenv.Database(t).Config(t)
	config.ConnConfig.Password = "wrong"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var tries atomic.Int32
	config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		if tries.Add(1) == 20 { // a campaign makes a few
			cancel()
		}
		return nil
	}
	log := newLog()
	l, err := pglock.NewWithConfig(config, pglock.WithLogger(slog.New(log)))
	must.Closing(t, l, err)
	err = leader.Run(ctx, l, electionKey, nothing, leader.WithBackoff(often, often))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
	if lines := log.about("cannot campaign"); len(lines) != 1 || !strings.Contains(lines[0], pglock.ErrDenied.Error()) {
		t.Errorf("%d connections logged %q, want one line about the password", tries.Load(), lines)
	}
}

func TestAnElectorThatHasNoListenerLogsTermsThatFail(t *testing.T) {
	for _, listens := range []bool{false, true} {
		log := newLog()
		l, err := locktest.NewServer().Locker(pglock.WithLogger(slog.New(log)))
		must.Closing(t, l, err)
		terms := 0
		ctx, cancel := context.WithCancel(t.Context())
		lead := func(context.Context, *pglock.Lock) error {
			if terms++; terms == 3 {
				cancel()
			}
			return errors.New("no ink")
		}
		opts := []leader.Option{leader.WithBackoff(often, often)}
		if listens {
			opts = append(opts, leader.WithEvents(func(leader.Event) {}))
		}
		if err := leader.Run(ctx, l, electionKey, lead, opts...); !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
		want := 2 // errors from the end of Run are not failures
		if listens {
			want = 0
		}
		if lines := log.about("no ink"); len(lines) != want {
			t.Errorf("with a listener %v, it logged %q, want %d", listens, lines, want)
		}
	}
}

func nothing(context.Context, *pglock.Lock) error { return nil }

// What the backend cannot do fails each term, so Run says so once, and ends.
func TestALeaderThatNeedsWhatTheBackendLacksEnds(t *testing.T) {
	l, err := locktest.NewMemory()
	must.Closing(t, l, err)
	elector, err := leader.New(l, pglock.NewKey("k"))
	must.Succeed(t, err)
	terms := 0
	err = elector.Run(t.Context(), func(ctx context.Context, lock *pglock.Lock) error {
		terms++
		return lock.GuardTx(ctx, nil)
	})
	if !errors.Is(err, pglock.ErrUnsupported) || terms != 1 {
		t.Errorf("after %d terms: %v", terms, err)
	}
}
