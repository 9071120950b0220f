package cli

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestMessagesLogRecordsReadLikeTheOtherMessages(t *testing.T) {
	var out strings.Builder
	logger := slog.New(messageHandler{w: &out})
	logger.Info("lock session opened", "pid", 5)
	logger.Warn("pglock: a session could not be ended")
	logger.With("server", "db1").WithGroup("lock").Warn("lock lost", "key", "nightly", "error", errors.New("no answer\x1b[2J"))
	want := "pglock: a session could not be ended\n" +
		`pglock: lock lost (server=db1, lock.key=nightly): no answer\x1b[2J` + "\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
