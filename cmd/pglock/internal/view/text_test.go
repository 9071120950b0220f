package view

import (
	"slices"
	"testing"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"invoice:42":          "invoice:42",
		"日本語/注文 é":            "日本語/注文 é",
		`back\slash`:          `back\slash`,
		"\x1b[31mred\x1b[0m":  `\x1b[31mred\x1b[0m`,
		"tab\tline\r\n":       `tab\tline\r\n`,
		"\u009b2J":            `\u009b2J`,
		"\u202eevil":          `\u202eevil`,
		"\u00a0\ufeff":        `\u00a0\ufeff`,
		"no\xffUTF-8\xe2\x82": `no\xffUTF-8\xe2\x82`,
		"\ufffd":              "\ufffd",
		"\U000e0001":          `\U000e0001`,
		"\x00\x7f":            `\x00\x7f`,
	} {
		if got := Printable(text); got != want {
			t.Errorf("Printable(%q) = %s, want %s", text, got, want)
		}
	}
}

// Each character that has a meaning in bash, zsh, fish or PowerShell is in one of the words.
func TestWordsThatAShellExpandsAreNotInert(t *testing.T) {
	for _, word := range []string{"invoice:42", "@42", "@7/-42", "@@home", "a.b/c_d-e+f%g,h=i", "/", "9"} {
		if !Inert(word) {
			t.Errorf("%q is not inert", word)
		}
	}
	for _, c := range "$`(){}[]<>|&;!#*?~^'\"\\ \t\n\r\x00\x1b\x7f\u0085\u00a0\u2028\u202e‘’‚‛“”„–—é日" {
		for _, word := range []string{string(c), "a" + string(c), string(c) + "a", "a" + string(c) + "b"} {
			if Inert(word) {
				t.Errorf("%q is inert", word)
			}
		}
	}
	for _, word := range []string{"", "-a", "--help", "=ls", "~a", "%self", "+a", ",a", ":a", "a\xff"} {
		if Inert(word) {
			t.Errorf("%q is inert", word)
		}
	}
}

func TestFitCountsColumns(t *testing.T) {
	for _, test := range []struct {
		text  string
		n     int
		right bool
		want  string
	}{
		{"abc", 5, false, "abc  "},
		{"abc", 5, true, "  abc"},
		{"abcdef", 5, false, "abcd…"},
		{"abcde", 5, false, "abcde"},
		{"日本語", 6, false, "日本語"},
		{"日本語", 5, false, "日本…"},
		{"日本語", 4, false, "日… "},
		{"e\u0301a", 2, false, "e\u0301a"},
		{"", 2, false, "  "},
	} {
		if got := Fit(test.text, test.n, test.right); got != test.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", test.text, test.n, got, test.want)
		}
	}
}

func TestWrap(t *testing.T) {
	got := Wrap("one two  three\nfour a-word-that-is-long", 9, "  ")
	if want := []string{"one two", "  three", "  four", "  a-word-", "  that-is", "  -long"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Wrap("日本文", 0, "  "), []string{"日本", "  文"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
