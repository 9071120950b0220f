package querylock

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// FuzzNamesAreInjective reads back from each name the values it was made of.
func FuzzNamesAreInjective(f *testing.F) {
	f.Add("", "a:b", int64(0), true, int64(-1), []byte("0123456789abcdef"))
	f.Add("%", "%25%", int64(-1<<63), false, int64(1<<53), []byte{})
	f.Add("{x}@", "\x00\xff\n", int64(1<<63-1), true, int64(-999_999), []byte{})
	template := Template{{Text: "a:", Param: "s", Type: Text}, {Text: "@", Param: "r", Type: Text}, {Text: ":", Param: "n", Type: Int},
		{Text: "-", Param: "literal", Type: Bool}, {Text: "-", Param: "at", Type: Time}, {Text: "/", Param: "u", Type: UUID}}
	f.Fuzz(func(t *testing.T, s, r string, n int64, b bool, micros int64, u []byte) {
		var id [16]byte
		copy(id[:], u)
		at := time.UnixMicro(micros)
		var values []string
		for i, value := range []any{s, r, n, b, at, id} {
			text, err := encode(template[i].Type, value)
			if err != nil {
				t.Skip(err)
			}
			values = append(values, text)
		}
		name, err := template.name(values)
		if err != nil {
			if len(s)+len(r) < 200 {
				t.Fatal(err)
			}
			return
		}
		got, ok := template.values(name)
		if !ok || strings.Join(got, "|") != strings.Join(values, "|") {
			t.Fatalf("%q was made of %q, and read as %q", name, values, got)
		}
		if back := unescape(got[0]); back != s {
			t.Fatalf("%q was escaped as %q, which reads as %q", s, got[0], back)
		}
		if got[2] != fmt.Sprint(n) || got[4] != fmt.Sprint(micros) {
			t.Fatalf("%d and %d are %s and %s", n, micros, got[2], got[4])
		}
	})
}

func unescape(text string) string {
	return strings.NewReplacer("%25", "%", "%3A", ":", "%40", "@", "%7B", "{", "%7D", "}").Replace(text)
}
