package view

import (
	"cmp"
	"os"
	"strings"
	"sync"
)

// ForTerminal returns text with ASCII in place of lines, arrows and ellipses, of the same width, if the locale is not one of UTF-8.
func ForTerminal(text string) string {
	if unicodeLocale() {
		return text
	}
	return ascii.Replace(text)
}

// unicodeLocale reports whether the variables of the locale say UTF-8, or nothing.
var unicodeLocale = sync.OnceValue(func() bool { return saysUnicode(os.Getenv) })

func saysUnicode(env func(string) string) bool {
	locale := strings.ToLower(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	return locale == "" || strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

var ascii = strings.NewReplacer("├", "|", "└", "`", "│", "|", "─", "-", "…", ".", "→", ">", "←", "<", "↑", "^", "↓", "v", "↻", "@", "▸", "+", "≥", ">", "×", "x")
