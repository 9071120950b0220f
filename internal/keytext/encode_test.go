package keytext_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/keytext"
)

func TestTextsThatPostgreSQLCannotHaveAreErrors(t *testing.T) {
	for text, want := range map[string]string{"a\x00b": "NUL", "\x00": "NUL", "a\xff": "UTF-8", "\xc3": "UTF-8", "\xed\xa0\x80": "UTF-8"} {
		if got, err := keytext.EncodeText(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q and %v, want %s", text, got, err, want)
		}
	}
}

func TestTimesBeyondTimestamptzAreErrors(t *testing.T) {
	first := time.Date(-4713, 11, 24, 0, 0, 0, 0, time.UTC)
	last := time.Date(294276, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	for at, want := range map[time.Time]string{
		first: "-210866803200000000", last: "9224318015999999999",
		first.Add(-1): "", last.Add(1): "",
	} {
		got, err := keytext.EncodeTime(at)
		if (err == nil) != (want != "") || (err == nil && got != want) {
			t.Errorf("%v: got %q and %v, want %q", at, got, err, want)
		}
	}
}
