package patterns

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
)

// ErrStale refuses a writer whose lock has had a later holder.
var ErrStale = errors.New("a later holder of the lock has written")

// Register is a service that keeps one value for the holder of a lock. It does not know the lock: every write brings
// the holder's fencing token ([pglock.Lock.Fence]), and one that is smaller than the largest it has seen is refused. So
// a holder that was frozen beyond its lease, and does not know yet, does no harm.
type Register struct {
	mu      sync.Mutex
	largest int64
	value   string
}

// Write writes a value, or refuses with [ErrStale].
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

// ServeHTTP takes writes: a form with token and value. A stale one is 409 Conflict.
func (r *Register) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	token, err := strconv.ParseInt(request.FormValue("token"), 10, 64)
	if err != nil {
		http.Error(w, "the token is no number", http.StatusBadRequest)
		return
	}
	if err := r.Write(token, request.FormValue("value")); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}
