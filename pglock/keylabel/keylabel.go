// Package keylabel is for adapters of metrics. It turns the keys of locks into labels, of which there must be few: a name
// such as invoice:42 would be a new time series for each invoice.
package keylabel

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock"
)

// other is the label of keys that have no label of their own.
const other = "other"

// most is the largest number of labels of a Labeler, besides other.
const most = 100

// Labeler labels keys. A nil Labeler gives no labels.
type Labeler struct {
	templates []string
	patterns  []*regexp.Regexp
}

// Templates returns a Labeler whose labels are templates, as the option WithKeyTemplates of the adapters takes them: texts
// in which each {…} matches at least one character. A key gets the first that its name matches.
func Templates(templates ...string) (*Labeler, error) {
	if len(templates) == 0 || len(templates) > most || slices.Contains(templates, "") {
		return nil, fmt.Errorf("WithKeyTemplates: want 1 to %d templates, none of them empty", most)
	}
	l := &Labeler{templates: templates}
	for _, template := range templates {
		l.patterns = append(l.patterns, pattern(template))
	}
	return l, nil
}

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

func pattern(template string) *regexp.Regexp {
	texts := placeholder.Split(template, -1)
	for i, text := range texts {
		texts[i] = regexp.QuoteMeta(text)
	}
	return regexp.MustCompile("(?s)^" + strings.Join(texts, ".+") + "$")
}

// Of returns the label of what a lock is for: its own key, the first of several, or that of the primitive that uses it.
func (l *Labeler) Of(keys []pglock.Key, use pglock.Use) string {
	if l == nil {
		return ""
	}
	key := use.Key
	if use.Kind == pglock.UseLock {
		if len(keys) == 0 {
			return other
		}
		key = keys[0]
	}
	name := key.String()
	for i, p := range l.patterns {
		if p.MatchString(name) {
			return l.templates[i]
		}
	}
	return other
}

// Internal reports whether a primitive takes the lock for its own purposes, which its users do not see.
func Internal(use pglock.Use) bool {
	return hooks.IsInternal(string(use.Kind))
}

// Use returns a label that says what a lock is for.
func Use(use pglock.Use) string {
	switch use.Kind {
	case pglock.UseLock:
		return "lock"
	case pglock.UsePermit:
		return "permit"
	}
	return string(use.Kind)
}
