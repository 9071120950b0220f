// Package keylabel turns the keys of locks into labels of metrics, of which there must be few: a name such as invoice:42
// would be a new time series for each invoice.
package keylabel

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Other is the label of keys that have no label of their own.
const Other = "other"

// Max is the largest number of labels that a Labeler gives out, besides Other.
const Max = 100

// Labeler labels keys. A nil Labeler gives no labels.
type Labeler struct {
	label func(pglock.Key) string

	mu    sync.Mutex
	given map[string]bool
}

// New returns a Labeler that calls label. Once there are [Max] different labels, every further one becomes Other,
// and so does an empty one.
func New(label func(pglock.Key) string) (*Labeler, error) {
	if label == nil {
		return nil, errors.New("the function is nil")
	}
	return &Labeler{label: label, given: map[string]bool{}}, nil
}

// Templates returns a Labeler whose labels are templates, as the option KeyTemplates of the adapters takes them: texts in
// which each {…} matches at least one character. A key gets the first that its name matches.
func Templates(templates ...string) (*Labeler, error) {
	if len(templates) == 0 {
		return nil, errors.New("KeyTemplates: there are none")
	}
	patterns := make([]*regexp.Regexp, len(templates))
	for i, template := range templates {
		if template == "" || len(templates) > Max {
			return nil, fmt.Errorf("a template is empty, or there are more than %d", Max)
		}
		patterns[i] = pattern(template)
	}
	return New(func(key pglock.Key) string {
		name := key.String()
		for i, p := range patterns {
			if p.MatchString(name) {
				return templates[i]
			}
		}
		return Other
	})
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
			return Other
		}
		key = keys[0]
	}
	text := l.label(key)
	if text == "" {
		return Other
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.given[text] || text == Other {
		return text
	}
	if len(l.given) == Max {
		return Other
	}
	l.given[text] = true
	return text
}

// Internal reports whether a primitive takes the lock for its own purposes, which its users do not see.
func Internal(use pglock.Use) bool {
	return use.Kind == hooks.UseSemaphoreGate || use.Kind == hooks.UseLeaderMark || use.Kind == hooks.UseTickMark
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
