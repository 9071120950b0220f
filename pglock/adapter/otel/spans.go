package otel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/keylabel"
)

// spans records each wait as a span.
type spans struct{ tracer trace.Tracer }

// ended makes the span of a wait, which is over.
func (s *spans) ended(ctx context.Context, e pglock.Event) {
	end := time.Now()
	_, span := s.tracer.Start(ctx, "pglock wait", trace.WithTimestamp(end.Add(-e.Took)), trace.WithAttributes(
		attribute.String("pglock.key", e.Keys[0].String()), attribute.Int("pglock.keys", len(e.Keys)),
		attribute.Bool("pglock.shared", e.Shared), attribute.String("pglock.use", keylabel.Use(e.Use)),
		attribute.String("pglock.outcome", keylabel.Outcome(e.Err)),
	))
	if err, ok := errors.AsType[*pglock.WaitError](e.Err); ok {
		for _, h := range err.Holders {
			span.AddEvent("pglock.holder", trace.WithAttributes(describe(h)...))
		}
	}
	if e.Err != nil {
		span.SetStatus(codes.Error, keylabel.Outcome(e.Err))
		span.RecordError(e.Err)
	}
	span.End(trace.WithTimestamp(end))
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
