package cli

import (
	"errors"
	"testing"
)

func TestOneLineLeavesOutAttemptsWithTLSIfTheServerHasNone(t *testing.T) {
	const (
		head   = "failed to connect to `user=app database=shop`:"
		noTLS  = "db:5432 (10.0.0.1): tls error: server refused TLS connection"
		denied = "db:5432 (10.0.0.1): failed SASL auth: FATAL: no"
		other  = "db:5432 (10.0.0.2): dial error"
	)
	for text, want := range map[string]string{
		head + "\n\t" + noTLS + "\n\t" + denied: head + " " + denied,
		head + "\n\t" + denied + "\n\t" + noTLS: head + " " + denied,
		head + "\n\t" + noTLS + "\n\t" + noTLS:  head + " " + noTLS,
		head + "\n\t" + noTLS + "\n\t" + other:  head + " " + noTLS + "; " + other,
		head + " " + noTLS:                      head + " " + noTLS,
	} {
		if got := oneLine(text); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestAURLOfRedisIsNamedAsSuch(t *testing.T) {
	for _, text := range []string{"redis://:secret@db:6379", "rediss://db"} {
		if _, _, err := parse(text); !errors.Is(err, errRedis) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
