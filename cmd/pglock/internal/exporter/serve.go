package exporter

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/places"
)

// How long a client may take before it is disconnected, and how long scrapes may take at shutdown.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 5 * time.Second
	maxHeaderBytes  = 16 << 10
	maxConnections  = 256
)

// Serve serves until ctx ends, and then waits up to five seconds for running scrapes. It closes the listener. The end of
// ctx is not an error. On a loopback address it answers only requests for a loopback host. Of more than 256 connections
// it closes the oldest one that has no request.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, logger *slog.Logger) error {
	server := &http.Server{
		Handler:           onLoopback(listener.Addr(), kept(handler)),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- places.Serve(server, listener, maxConnections, nil) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := server.Shutdown(patience)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// kept keeps the place of a connection while it has a request.
func kept(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer places.Keep(r.Context())()
		handler.ServeHTTP(w, r)
	})
}
