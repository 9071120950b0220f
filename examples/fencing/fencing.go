// Package fencing is a service that refuses stale writers: a holder of a lock that was frozen beyond its lease.
package fencing

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
)

// ErrStale is the refusal of a writer after a later holder has written.
var ErrStale = errors.New("a later holder of the lock has written")

// Register is a service that keeps one value for the holder of a lock. It does not know the lock: every write carries
// the holder's fencing token ([pglock.Lock.Fence]), and a token below the largest one seen is refused. So a holder that
// was frozen beyond its lease, and has not noticed yet, does no harm.
type Register struct {
	mu      sync.Mutex
	largest int64
	value   string
}

// Write stores a value, or fails with [ErrStale].
func (r *Register) Write(token int64, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.largest {
		return ErrStale
	}
	r.largest, r.value = token, value
	return nil
}

// Value returns the value.
func (r *Register) Value() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value
}

// ServeHTTP handles a write: a form with token and value. A stale write gets 409 Conflict.
func (r *Register) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	token, err := strconv.ParseInt(request.FormValue("token"), 10, 64)
	if err != nil {
		http.Error(w, "the token is not a number", http.StatusBadRequest)
		return
	}
	if err := r.Write(token, request.FormValue("value")); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}
