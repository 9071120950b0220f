package view

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/pglock-toolkit/pglock/monitor"
)

// JSON writes a snapshot as an indented JSON value, in the format that package monitor documents. Unprintable text
// is written as escapes, which have the same meaning to programs and none to a terminal.
func JSON(w io.Writer, s *monitor.Snapshot) error { return writeJSON(w, s, "  ") }

// NDJSON writes a snapshot as JSON on one line.
func NDJSON(w io.Writer, s *monitor.Snapshot) error { return writeJSON(w, s, "") }

// writeJSON writes one lock, holder and waiter after another, so that the text of a large snapshot is never in memory as a
// whole.
func writeJSON(w io.Writer, s *monitor.Snapshot, indent string) error {
	out := &listWriter{Writer: bufio.NewWriter(w), indent: indent}
	rest := *s
	if len(s.Locks) > 0 {
		rest.Locks = nil
	}
	text := out.encoded(rest, 0)
	text = out.list(text, "locks", 1, len(s.Locks), func(i int) {
		lock := s.Locks[i]
		if len(lock.Holders) > 0 {
			lock.Holders = nil
		}
		if len(lock.Waiters) > 0 {
			lock.Waiters = nil
		}
		text := out.encoded(lock, 2)
		text = out.list(text, "holders", 3, len(s.Locks[i].Holders), func(k int) { out.add(out.encoded(s.Locks[i].Holders[k], 4)) })
		text = out.list(text, "waiters", 3, len(s.Locks[i].Waiters), func(k int) { out.add(out.encoded(s.Locks[i].Waiters[k], 4)) })
		out.add(text)
	})
	out.add(text + "\n")
	return errors.Join(out.err, out.Flush())
}

// listWriter writes JSON whose lists are written element by element.
type listWriter struct {
	*bufio.Writer
	indent string
	err    error // of encoding
}

func (l *listWriter) add(text string) { _, _ = l.WriteString(text) } // Flush returns the error

// encoded returns the JSON of a value that is so many levels deep.
func (l *listWriter) encoded(value any, depth int) string {
	var text bytes.Buffer
	if err := encodeJSON(&text, value, strings.Repeat(l.indent, depth), l.indent); err != nil {
		l.err = cmp.Or(l.err, err)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// list writes the text up to a field that is null, then the field with n elements, and returns the rest.
func (l *listWriter) list(text, field string, depth, n int, element func(i int)) (rest string) {
	if n == 0 {
		return text
	}
	name, item, end := `"`+field+`":`, "", ""
	if l.indent != "" {
		name, item, end = name+" ", "\n"+strings.Repeat(l.indent, depth+1), "\n"+strings.Repeat(l.indent, depth)
	}
	before, rest, _ := strings.Cut(text, name+"null") // this is not in a text, where quotes are escaped
	l.add(before + name + "[")
	for i := range n {
		if i > 0 {
			l.add(",")
		}
		l.add(item)
		element(i)
	}
	l.add(end + "]")
	return rest
}

// Indented writes any value as indented JSON, with the same escapes.
func Indented(w io.Writer, value any) error { return encodeJSON(w, value, "", "  ") }

func encodeJSON(w io.Writer, value any, prefix, indent string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent(prefix, indent)
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
