package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"

	"github.com/pglock-toolkit/pglock/monitor"
)

// JSON writes a snapshot as an indented JSON value, in the format that package monitor documents, with its action and that as a
// sentence, the headline. Unprintable text is written as escapes, which have the same meaning to programs and none to a terminal.
func JSON(w io.Writer, s *monitor.Snapshot, action monitor.Action) error {
	return encodeJSON(w, withAction{action.String(), action, s}, "  ")
}

// NDJSON writes a snapshot as JSON on one line.
func NDJSON(w io.Writer, s *monitor.Snapshot, action monitor.Action) error {
	return encodeJSON(w, withAction{action.String(), action, s}, "")
}

type withAction struct {
	Headline string         `json:"headline"`
	Action   monitor.Action `json:"action"`
	*monitor.Snapshot
}

// Indented writes any value as indented JSON, with the same escapes.
func Indented(w io.Writer, value any) error { return encodeJSON(w, value, "  ") }

func encodeJSON(w io.Writer, value any, indent string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(Escaped(text.Bytes()))
	return err
}

// Escaped replaces unprintable characters in JSON, which occur only in strings. The encoder has already escaped those
// that JSON does not allow.
func Escaped(text []byte) []byte {
	if bytes.IndexFunc(text, unprintable) < 0 {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch high, low := utf16.EncodeRune(r); {
		case !unprintable(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

func unprintable(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
