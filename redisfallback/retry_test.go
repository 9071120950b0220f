package redisfallback_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

func TestRetryOptionsThatAreForPostgreSQLOnlyAreNamed(t *testing.T) {
	client := newClient(t, "redis://127.0.0.1:1")
	_, err := redisfallback.New(client, pglock.WithLease(time.Minute), pglock.AllowPooler(), pglock.WithSessions(3), pglock.WithNames())
	if !errors.Is(err, pglock.ErrUnsupported) || !strings.Contains(err.Error(), "AllowPooler, WithSessions, WithNames") {
		t.Errorf("the error is %v", err)
	}
}
