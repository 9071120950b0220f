package exporter

import (
	"context"
	"net"
	"net/http"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/places"
)

const maxConnections = 256

// Serve serves until ctx ends, and then waits for running scrapes, as [places.Serve] does. On a loopback address it answers
// only requests for a loopback host. Of more than 256 connections it closes the oldest one that has no request.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	return places.Serve(ctx, listener, onLoopback(listener.Addr(), kept(handler)), maxConnections, nil)
}

// kept keeps the place of a connection while it has a request.
func kept(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer places.Keep(r.Context())()
		handler.ServeHTTP(w, r)
	})
}
