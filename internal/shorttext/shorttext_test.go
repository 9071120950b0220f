package shorttext

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var strangers = map[string]string{
	"one letter":       strings.Repeat("a", 1<<20),
	"two bytes":        strings.Repeat("é", 1<<19),
	"two bytes, later": "a" + strings.Repeat("é", 1<<19),
	"four bytes":       strings.Repeat("🔒", 1<<18),
	"no UTF-8":         strings.Repeat("\xff", 1<<20),
	"continuations":    strings.Repeat("\x80", 1<<20),
	"control":          strings.Repeat("\x1b[2J\x00\u202e", 1<<16),
	"short control":    "\x1b]0;title\x07",
}

func TestShortTextOfAnythingIsShortAndPrintable(t *testing.T) {
	for name, s := range strangers {
		for form, text := range map[string]string{
			"Quote": Quote(s), "Value": Value(s), "Message": Message(s), "Error": Error(errors.New(s)).Error(),
		} {
			most := 4*MaxMessage + 30 // a byte becomes \xff
			if form == "Quote" || form == "Value" {
				most = 4*MaxValue + 30
			}
			if len(text) > most {
				t.Errorf("%s of %s has %d bytes", form, name, len(text))
			}
			if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
				t.Errorf("%s of %s is %.200q", form, name, text)
			}
			if len(s) > MaxMessage && !strings.Contains(text, fmt.Sprintf("(%d bytes)", len(s))) {
				t.Errorf("%s of %s does not say how long it is: %s", form, name, text)
			}
		}
	}
}

func TestShortTextCutsBetweenCharacters(t *testing.T) {
	for n := range utf8.UTFMax {
		s := strings.Repeat("a", n) + strings.Repeat("🔒", 100)
		if text := Value(s); strings.Contains(text, `\x`) || !strings.HasPrefix(s, strings.TrimSuffix(text, fmt.Sprintf("… (%d bytes)", len(s)))) {
			t.Errorf("%q", text)
		}
	}
}

func TestShortTextOfAShortErrorIsTheErrorItself(t *testing.T) {
	err := fmt.Errorf("two lines\n\tof text: %w", io.EOF)
	if Error(err) != err || Error(nil) != nil {
		t.Error("it was changed")
	}
	long := fmt.Errorf("%s: %w", strangers["one letter"], io.EOF)
	if !errors.Is(Error(long), io.EOF) {
		t.Error("the cause of a long error is lost")
	}
}

func TestBytesThatAreNotUTF8StayApart(t *testing.T) {
	if got := Clean("日\xc1\xff�"); got != `日\xc1\xff�` {
		t.Errorf("cleaned: %q", got)
	}
}
