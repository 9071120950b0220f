package pglock_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/pglock"
)

func TestLockLostReasonIsOneWordInEveryLog(t *testing.T) {
	t.Parallel()
	var text, json bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&json, nil)} {
		slog.New(handler).Info("x", "reason", pglock.LostMaxHold)
	}
	if !strings.Contains(text.String(), "reason=max-hold") || !strings.Contains(json.String(), `"reason":"max-hold"`) {
		t.Errorf("logged: %s%s", &text, &json)
	}
}
