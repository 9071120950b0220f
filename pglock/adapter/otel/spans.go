package otel

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/keylabel"
)

// spans records each wait as a span.
type spans struct{ tracer trace.Tracer }

// waitKey is the key of the *wait in the context of a call that waits.
type waitKey struct{}

// wait is a call that waits.
type wait struct {
	span  trace.Span
	timer *time.Timer // asks for the holders; nil if it should not ask

	mu     sync.Mutex
	named  bool // the holders are in the span
	ended  bool
	cancel context.CancelFunc // stops asking
}

// started begins the span of a wait, and returns a context with it.
func (s *spans) started(ctx context.Context, e pglock.Event) context.Context {
	ctx, span := s.tracer.Start(ctx, "pglock wait", trace.WithAttributes(
		attribute.String("pglock.key", e.Keys[0].String()), attribute.Int("pglock.keys", len(e.Keys)),
		attribute.Bool("pglock.shared", e.Shared), attribute.String("pglock.use", keylabel.Use(e.Use)),
	))
	w := &wait{span: span}
	if span.IsRecording() {
		asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
		w.cancel = cancel
		w.timer = time.AfterFunc(holdersAfter, func() {
			asking, cancel := context.WithTimeout(asking, askWithin)
			defer cancel()
			if holders, err := e.Holders(asking); err == nil {
				w.name(holders)
			}
		})
	}
	return context.WithValue(ctx, waitKey{}, w)
}

const (
	holdersAfter = 100 * time.Millisecond // how long a call waits before the server is asked for the holders
	askWithin    = 5 * time.Second
)

// ended ends the span of a wait.
func (s *spans) ended(ctx context.Context, e pglock.Event) {
	w, ok := ctx.Value(waitKey{}).(*wait)
	if !ok {
		return
	}
	if w.timer != nil {
		w.timer.Stop()
		w.cancel()
	}
	if err, ok := errors.AsType[*pglock.WaitError](e.Err); ok {
		w.name(err.Holders)
	}
	w.span.SetAttributes(attribute.String("pglock.outcome", keylabel.Outcome(e.Err)))
	if e.Err != nil {
		w.span.SetStatus(codes.Error, keylabel.Outcome(e.Err))
		w.span.RecordError(e.Err)
	}
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.span.End()
}

// name adds the holders to the span, once.
func (w *wait) name(holders []pglock.Holder) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.named || w.ended || len(holders) == 0 {
		return
	}
	w.named = true
	for _, h := range holders {
		w.span.AddEvent("pglock.holder", trace.WithAttributes(describe(h)...))
	}
}

// describe returns what is known of a holder.
func describe(h pglock.Holder) (known []attribute.KeyValue) {
	known = append(known, attribute.Bool("pglock.holder.shared", h.Shared))
	if h.PID != 0 {
		known = append(known, attribute.Int("pglock.holder.pid", int(h.PID)))
	}
	if !h.SessionSince.IsZero() {
		known = append(known, attribute.String("pglock.holder.session_since", h.SessionSince.UTC().Format(time.RFC3339)))
	}
	for key, text := range map[string]string{
		"pglock.holder.application": h.Application, "pglock.holder.user": h.User, "pglock.holder.client": h.Client,
		"pglock.holder.token": h.Token, "pglock.holder.prepared": h.Prepared,
	} {
		if text != "" {
			known = append(known, attribute.String(key, text))
		}
	}
	return known
}
