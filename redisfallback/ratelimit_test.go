package redisfallback_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/suites/ratelimittest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

func TestRatelimitPassesTheSuite(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := open(t)
			ratelimittest.Exercise(t, func(t testing.TB) *ratelimit.Limiter { return newLimiter(t, client) })
		})
	}
}

func newLimiter(t testing.TB, client redis.UniversalClient, opts ...ratelimit.Option) *ratelimit.Limiter {
	t.Helper()
	l, err := redisfallback.NewLimiter(client, pglock.NewKey("limits"), append([]ratelimit.Option{ratelimit.WithTimeout(time.Minute)}, opts...)...)
	must.Succeed(t, err)
	return l
}

func TestRatelimitAServerThatIsGoneIsAnOutage(t *testing.T) {
	t.Parallel()
	client := newClient(t, "redis://127.0.0.1:1")
	limit := ratelimit.PerMinute(1)
	if _, err := newLimiter(t, client).Allow(t.Context(), "k", limit); !errors.Is(err, pglock.ErrUnavailable) {
		t.Error(err)
	}
}

func TestRatelimitScriptsThatTheServerForgotAreSentAgain(t *testing.T) {
	client := newClient(t, servers(t, 1)[0].URL())
	l, limit := newLimiter(t, client), ratelimit.PerHour(3)
	for i := range 3 {
		if d, err := ratelimittest.Allow(t.Context(), l, "k", limit); err != nil || d.Remaining != 2-i {
			t.Fatal(d, err)
		}
		must.Succeed(t, client.ScriptFlush(t.Context()).Err())
	}
}

func TestRatelimitStateExpires(t *testing.T) {
	client := newClient(t, servers(t, 1)[0].URL())
	l := newLimiter(t, client)
	if _, err := ratelimittest.Allow(t.Context(), l, "k", ratelimit.PerHour(60)); err != nil {
		t.Fatal(err)
	}
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if ttl := client.TTL(t.Context(), keys[0]).Val(); ttl <= 0 || ttl > 61*time.Second {
		t.Errorf("the state stays for %v", ttl)
	}
}

func TestRatelimitAClockThatIsSetBackDelaysNothing(t *testing.T) {
	client := newClient(t, servers(t, 1)[0].URL())
	ratelimittest.ExerciseClock(t, newLimiter(t, client), func(key string) {
		keys := client.Keys(t.Context(), "*"+key).Val()
		if len(keys) != 1 {
			t.Fatalf("%s: %v", key, keys)
		}
		value := client.Get(t.Context(), keys[0]).Val()
		text, rest, _ := strings.Cut(value, ":")
		seconds, err := strconv.Atoi(text)
		if err == nil {
			err = client.Set(t.Context(), keys[0], fmt.Sprint(seconds+3600, ":", rest), time.Hour).Err()
		}
		if err != nil {
			t.Fatalf("%s: %q: %v", key, value, err)
		}
	})
}

func TestRatelimitMisuseIsAnError(t *testing.T) {
	if _, err := redisfallback.NewLimiter(nil, pglock.NewKey("limits")); err == nil {
		t.Error("a nil client is no error")
	}
	client := newClient(t, testenv.RedisURL(t))
	if _, err := redisfallback.NewLimiter(client, pglock.NewKey("limits"), ratelimit.WithTrustedOwner("a")); !errors.Is(err, pglock.ErrUnsupported) {
		t.Error(err)
	}
}
