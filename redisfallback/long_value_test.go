package redisfallback_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// A value of 4 MiB is at the key of a lock.
func TestRedisALongForeignValueIsNotSent(t *testing.T) {
	client := newClient(t, testenv.RedisURL(t))
	l, err := redisfallback.New(client)
	must.Succeed(t, err)
	defer l.Close(t.Context())
	key := pglock.NewKey(t.Name())
	must.Succeed(t, client.Set(t.Context(), "pglock:"+key.Name(), strings.Repeat("x", 4<<20), 0).Err())
	defer client.Del(t.Context(), "pglock:"+key.Name())
	_, err = l.Lock(t.Context(), key, pglock.MaxWait(20*time.Millisecond))
	if err == nil || len(err.Error()) > 1000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	var holders []pglock.Holder
	testenv.WaitUntil(t, "the server answers", func() bool { // it may be busy with other tests
		holders, err = l.Holders(t.Context(), key)
		return !errors.Is(err, pglock.ErrUnavailable)
	})
	if err != nil || len(holders) != 1 || len(holders[0].Token) > 1024 {
		t.Errorf("%d holders, %v", len(holders), err)
	}
}
