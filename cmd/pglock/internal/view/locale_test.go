package view

import (
	"testing"
	"unicode/utf8"
)

func TestALocaleWithoutUnicodeHasLinesOfASCII(t *testing.T) {
	for locale, unicode := range map[string]bool{"": true, "C": false, "POSIX": false, "en_US.ISO-8859-1": false, "C.UTF-8": true, "de_DE.utf8": true} {
		if got := saysUnicode(func(name string) string { return map[string]string{"LANG": locale}[name] }); got != unicode {
			t.Errorf("%q: %v", locale, got)
		}
	}
	const lines = "├─ ▸ 40 waiters … │ └─ ↻ 11 → 12 ≥ 3 %"
	got := ascii.Replace(lines)
	for _, r := range got {
		if r >= utf8.RuneSelf {
			t.Errorf("%q is in %s", r, got)
		}
	}
	if Columns(got) != Columns(lines) {
		t.Errorf("%q has another width", got)
	}
}
