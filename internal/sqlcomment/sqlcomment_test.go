package sqlcomment

import (
	"net/url"
	"testing"
)

// FuzzRead reads comments of statements of any client: tags are few and short, and read the same when they are written again.
func FuzzRead(f *testing.F) {
	for _, query := range []string{
		"SELECT 1 /* a='b',c='d%20e' */", `/*x='it\'s'*/ SELECT`, "/* a='", "/**/ /*='1'*/", "SELECT '/*a=''b''*/'", "/*a='%zz'*/",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		tags := Read(query)
		if tags == nil || len(tags) > maxTags {
			t.Fatalf("%d tags of %q", len(tags), query)
		}
		for name, value := range tags {
			again := Parse(url.PathEscape(name) + "='" + url.QueryEscape(value) + "'")
			if len(value) > maxValue || !isName(name) || again == nil {
				t.Errorf("%q has tag %q=%q, which reads as %q", query, name, value, again)
			}
		}
	})
}
