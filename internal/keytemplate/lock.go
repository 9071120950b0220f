package keytemplate

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Lock is what a query locks, and how: invoice:{id} shared max_wait=2s.
type Lock struct {
	Template
	Shared bool
	Options
}

// Options are those that all locks of a query have in common.
type Options struct {
	Try     bool
	MaxWait time.Duration // 0: until the context ends
}

// ParseLock reads a template and the options that follow it, in any order.
func ParseLock(text string) (l Lock, err error) {
	template, rest := CutTemplate(text)
	if l.Template, err = parse(template); err != nil {
		return l, fmt.Errorf("%q: %w", template, err)
	}
	for _, p := range l.Template {
		if p.Type != 0 {
			return l, fmt.Errorf("%s: the type of {%s} is the key's: write {%[2]s}, and -- pglock: key %[1]s", l.Declaration(), p.Param)
		}
	}
	options := strings.Fields(rest)
	for i, option := range options {
		name, _, _ := strings.Cut(option, "=")
		if slices.ContainsFunc(options[:i], func(o string) bool { return o == name || strings.HasPrefix(o, name+"=") }) {
			return l, fmt.Errorf("%s: option %s appears twice", l.Template, name)
		}
		if err := l.set(option); err != nil {
			return l, fmt.Errorf("%s: %w", l.Template, err)
		}
	}
	if l.Try && l.MaxWait > 0 {
		return l, fmt.Errorf("%s: try never waits, so it contradicts max_wait", l.Template)
	}
	return l, nil
}

func (l *Lock) set(option string) (err error) {
	value, bounded := strings.CutPrefix(option, "max_wait=")
	switch {
	case option == "shared":
		l.Shared = true
	case option == "try":
		l.Try = true
	case !bounded:
		return fmt.Errorf("unknown option %q: the options are shared, try, max_wait=2s", option)
	default:
		if l.MaxWait, err = time.ParseDuration(value); err != nil {
			return fmt.Errorf("option %s: want a duration such as max_wait=500ms", option)
		}
		if l.MaxWait < time.Millisecond {
			return fmt.Errorf("option %s: the least wait is 1ms (to not wait at all use try)", option)
		}
	}
	return nil
}

// String returns the lock as [ParseLock] reads it.
func (l Lock) String() string {
	text := l.render(func(p Part) string {
		if p.Source == p.Param && !p.Array {
			return p.Param
		}
		brackets := ""
		if p.Array {
			brackets = "[]"
		}
		return p.Param + "=" + p.Source + brackets
	})
	for _, option := range []struct {
		text string
		set  bool
	}{
		{" shared", l.Shared}, {" try", l.Try}, {" max_wait=" + l.MaxWait.String(), l.MaxWait > 0},
	} {
		if option.set {
			text += option.text
		}
	}
	return text
}
