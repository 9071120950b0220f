package redisfallback

import (
	"context"
	"crypto/rand"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// text is a token.
type text string

func (t text) String() string { return string(t) }

// TestRedlockALateReleaseDoesNotEndALaterAttempt: the release that undoes an attempt reaches a node that was frozen when
// the next attempt of the same call has succeeded. The lock needs that node for its majority.
func TestRedlockALateReleaseDoesNotEndALaterAttempt(t *testing.T) {
	t.Parallel()
	ours := text(rand.Text() + "-1")
	for kind, r := range map[string]driver.Request{
		"exclusive": {Token: ours}, "shared": {Token: ours, Shared: true},
	} {
		t.Run(kind, func(t *testing.T) {
			b, nodes := newRedlock(t)
			for _, node := range nodes[:2] {
				testenv.AskRedis(t, node, "SET", "pglock:k", "theirs")
			}
			r.Key = driver.Key{KeyID: driver.KeyID{Space: driver.SpaceBigint}, Name: "k", Named: true}
			g := b.newGrant(r)
			late := b.releaseCalls(g, releaseSilent, false)
			if a := b.attempt(t.Context(), g, b.takeCalls(g, noLine, false), true); !a.refused() {
				t.Fatalf("while another client has a majority: %v", a.err)
			}
			testenv.AskRedis(t, nodes[0], "DEL", "pglock:k")
			if a := b.attempt(t.Context(), g, b.takeCalls(g, noLine, true), true); a.err != nil {
				t.Fatal(a.err)
			}
			if _, err := b.roundUntil(t.Context(), late, (*tally).over); err != nil {
				t.Fatal(err)
			}
			if err := b.Check(t.Context(), g); err != nil {
				t.Errorf("after the release of the attempt before: %v", err)
			}
			if holders, err := b.Holders(t.Context(), r.Key); err != nil || len(holders) != 1 || holders[0].Token != r.Token.String() {
				t.Errorf("the holders are %v, %v", holders, err)
			}
		})
	}
}

// newRedlock returns a backend on three servers.
func newRedlock(t *testing.T) (*backend, []*redisserver.Server) {
	t.Helper()
	var nodes []*redisserver.Server
	var clients []redis.UniversalClient
	for range minRedlock {
		node := testenv.NewRedis(t)
		client := redis.NewClient(&redis.Options{Addr: node.Addr()})
		t.Cleanup(func() {
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
		nodes, clients = append(nodes, node), append(clients, client)
	}
	b := newBackend(clients, config{prefix: defaultKeyPrefix, timeout: time.Minute})
	if err := b.Start(driver.Config{Lease: time.Hour, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b, nodes
}
