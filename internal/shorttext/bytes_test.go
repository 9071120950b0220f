package shorttext

import "testing"

func TestBytesBecomeUTF8(t *testing.T) {
	for text, want := range map[string]string{
		`plain`: "plain", `r\303\244t`: "rät", `a\\b`: `a\b`, `\\303`: `\303`, `caf\351`: `caf\xe9`, `end\`: `end\`,
	} {
		if got := Unescape(text); got != want {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
	}
	if got := Clean("日\xc1\xff�"); got != `日\xc1\xff�` {
		t.Errorf("cleaned: %q", got)
	}
}
