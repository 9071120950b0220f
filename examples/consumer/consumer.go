// Package consumer handles the messages of a queue once, with Watermill (https://watermill.io) and package once: the
// handler's writes and the record of the message commit together, so a message that is delivered again changes nothing.
package consumer

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

// DB begins transactions, as a pool does.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Once returns a handler that calls handle once for each UUID of a message, in a transaction that must not be committed
// by handle. The scope is that of the consumer: each consumer of a topic
// handles a message once.
//
// A message is acknowledged only after the commit. If it is delivered again while it is being handled, by this
// consumer or another process, the second delivery waits; if the subscriber's context ends that wait, Watermill
// delivers the message again.
func Once(db DB, scope *once.Scope, handle func(ctx context.Context, tx pgx.Tx, msg *message.Message) error) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		ctx := msg.Context()
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if err := scope.Matching(msg.Payload).Tx(ctx, tx, msg.UUID); err != nil {
				return err
			}
			return handle(ctx, tx, msg)
		})
		switch {
		case errors.Is(err, pglock.ErrDone):
			return nil
		case errors.Is(err, once.ErrMismatch): // another delivery would not help
			slog.ErrorContext(ctx, "two messages have one ID", "id", msg.UUID, "error", err)
			return nil
		}
		return err
	}
}
