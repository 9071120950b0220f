package cli

import (
	"context"
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/monitor"
)

// send sends a signal, and logs that it was sent or could not be sent.
func send(ctx context.Context, db database, pool *pgxpool.Pool, log io.Writer, signal string,
	c monitor.Target) (monitor.Outcome, error) {
	end, trusted := monitor.Terminate, monitor.WithTrustedOwner(db.trusted...)
	if signal == "cancel" {
		end = monitor.Cancel
	}
	outcome, err := end(ctx, pool, c, trusted)
	record(ctx, slog.New(slog.NewTextHandler(log, nil)).With("server", db.target), signal, c, outcome, err)
	return outcome, err
}

// record logs a signal, sent or not.
func record(ctx context.Context, logger *slog.Logger, signal string, c monitor.Target, o monitor.Outcome,
	err error) {
	if err == nil {
		logger.LogAttrs(ctx, slog.LevelInfo, "session signalled", slog.Any("", o))
		return
	}
	message := "session not signalled"
	if o.Sent {
		message = "session signalled, effect unknown"
	}
	logger.LogAttrs(ctx, slog.LevelError, message, slog.String("signal", signal), slog.Any("", c),
		slog.String("error", oneLine(err.Error())))
}
