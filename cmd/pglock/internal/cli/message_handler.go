package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// messageHandler writes log records in the form of the command's other messages: "pglock: MESSAGE (KEY=VALUE, KEY=VALUE):
// ERROR". It drops records below the level of a warning.
type messageHandler struct {
	w     io.Writer
	attrs []slog.Attr
	group string // in front of the keys
}

// Enabled implements [slog.Handler].
func (p messageHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle implements [slog.Handler].
func (p messageHandler) Handle(_ context.Context, r slog.Record) error {
	attrs := p.attrs
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs[:len(attrs):len(attrs)], p.named(a))
		return true
	})
	var details []string
	cause := ""
	for _, a := range attrs {
		value := a.Value.Resolve()
		if err, ok := value.Any().(error); ok {
			cause += ": " + oneLine(err.Error())
		} else {
			details = append(details, fmt.Sprintf("%s=%v", a.Key, value))
		}
	}
	message := strings.TrimPrefix(r.Message, program)
	if len(details) > 0 {
		message += " (" + strings.Join(details, ", ") + ")"
	}
	say(p.w, "%s%s", message, cause)
	return nil
}

func (p messageHandler) named(a slog.Attr) slog.Attr {
	return slog.Attr{Key: p.group + a.Key, Value: a.Value}
}

// WithAttrs implements [slog.Handler].
func (p messageHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	p.attrs = p.attrs[:len(p.attrs):len(p.attrs)]
	for _, a := range attrs {
		p.attrs = append(p.attrs, p.named(a))
	}
	return p
}

// WithGroup implements [slog.Handler].
func (p messageHandler) WithGroup(name string) slog.Handler {
	p.group += name + "."
	return p
}
