package querylock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
)

// FuzzNamesAreInjective reads back from each name the values it was made of.
func FuzzNamesAreInjective(f *testing.F) {
	f.Add("", "a:b", int64(0), true, int64(-1), []byte("0123456789abcdef"))
	f.Add("%", "%25%", int64(-1<<63), false, int64(1<<53), []byte{})
	f.Add("{x}@", "\x00\xff\n", int64(1<<63-1), true, int64(-999_999), []byte{})
	template, err := keytemplate.Parse("a:{s text}@{r text}:{n bigint}-{literal boolean}-{at timestamptz}/{u uuid}")
	if err != nil {
		f.Fatal(err)
	}
	names := template.Names()
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
		name, err := template.Name(values)
		if err != nil {
			if len(s)+len(r) < 200 {
				t.Fatal(err)
			}
			return
		}
		got := names.FindStringSubmatch(name)
		if got == nil || strings.Join(got[1:], "|") != strings.Join(values, "|") {
			t.Fatalf("%q was made of %q, and read as %q", name, values, got)
		}
		if back := unescape(got[1]); back != s {
			t.Fatalf("%q was escaped as %q, which reads as %q", s, got[1], back)
		}
		if got[3] != fmt.Sprint(n) || got[5] != fmt.Sprint(micros) {
			t.Fatalf("%d and %d are %s and %s", n, micros, got[3], got[5])
		}
	})
}

func unescape(text string) string {
	return strings.NewReplacer("%25", "%", "%3A", ":", "%40", "@", "%7B", "{", "%7D", "}").Replace(text)
}
