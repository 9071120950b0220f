package redisfallback_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

func TestRetryUnavailableRidesOutARestartOfRedis(t *testing.T) {
	t.Parallel()
	server := testenv.NewRedis(t)
	l := open(t, []redis.UniversalClient{newClient(t, server.URL())}, nil)
	key := pglock.NewKey("k")
	server.Kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := l.Lock(ctx, key); !errors.Is(err, pglock.ErrUnavailable) {
		t.Errorf("without RetryUnavailable the error is %v", err)
	}
	result := make(chan error, 1)
	go func() {
		lock, err := l.Lock(ctx, key, pglock.RetryUnavailable(time.Hour))
		if err == nil {
			err = lock.Unlock(ctx)
		}
		result <- err
	}()
	testenv.WaitUntil(t, "it waits", func() bool { return l.Stats().Waiting == 1 })
	server.Start(t)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestRetryOptionsThatAreForPostgreSQLOnlyAreNamed(t *testing.T) {
	client := newClient(t, "redis://127.0.0.1:1")
	_, err := redisfallback.New(client, pglock.WithLease(time.Minute), pglock.AllowPooler(), pglock.WithSessions(3), pglock.WithNames())
	if !errors.Is(err, pglock.ErrUnsupported) || !strings.Contains(err.Error(), "AllowPooler, WithSessions, WithNames") {
		t.Errorf("the error is %v", err)
	}
}
