package keytemplate

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Lock is a template with the options of a query's lock: invoice:{id} shared max_wait=2s.
type Lock struct {
	Template
	Shared    bool
	Try       bool
	Savepoint bool
	MaxWait   *time.Duration // nil: until the context ends
}

// ParseLock reads a template and the options that follow it, in any order.
func ParseLock(text string) (Lock, error) {
	template, rest := CutTemplate(text)
	parsed, err := Parse(template)
	if err != nil {
		return Lock{}, err
	}
	lock := Lock{Template: parsed}
	for _, option := range strings.Fields(rest) {
		if err := lock.set(option); err != nil {
			return Lock{}, fmt.Errorf("%s: %w", parsed, err)
		}
	}
	if lock.Try && lock.MaxWait != nil {
		return Lock{}, fmt.Errorf("%s: try never waits, so it contradicts max_wait", parsed)
	}
	return lock, nil
}

func (l *Lock) set(option string) error {
	name, value, valued := strings.Cut(option, "=")
	if flag, ok := map[string]*bool{"shared": &l.Shared, "try": &l.Try, "savepoint": &l.Savepoint}[name]; ok && !valued {
		if *flag {
			return fmt.Errorf("option %s appears twice", name)
		}
		*flag = true
		return nil
	}
	if name != "max_wait" {
		return fmt.Errorf("unknown option %q: the options are shared, try, max_wait=2s, savepoint", option)
	}
	d, err := time.ParseDuration(value)
	switch {
	case l.MaxWait != nil:
		return errors.New("option max_wait appears twice")
	case err != nil:
		return fmt.Errorf("option %s: want a duration such as max_wait=500ms", option)
	case d < time.Millisecond:
		return fmt.Errorf("option %s: the least wait is 1ms (to not wait at all use try)", option)
	}
	l.MaxWait = &d
	return nil
}

// Options returns the options as [ParseLock] reads them, each with a space before it.
func (l Lock) Options() string {
	var b strings.Builder
	for _, option := range []struct {
		name string
		set  bool
	}{{"shared", l.Shared}, {"try", l.Try}, {"savepoint", l.Savepoint}} {
		if option.set {
			b.WriteString(" " + option.name)
		}
	}
	if l.MaxWait != nil {
		b.WriteString(" max_wait=" + l.MaxWait.String())
	}
	return b.String()
}

// CutTemplate cuts the text after the template, at the first space outside braces.
func CutTemplate(text string) (template, rest string) {
	text = strings.TrimSpace(text)
	inside := false
	for i, r := range text {
		switch {
		case r == '{':
			inside = true
		case r == '}':
			inside = false
		case !inside && (r == ' ' || r == '\t'):
			return text[:i], strings.TrimSpace(text[i:])
		}
	}
	return text, ""
}
