package web

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

// Limited passes an account's requests on to next as limit allows, and answers the others with 429. Each answer says
// how many requests are left.
func Limited(l *ratelimit.Limiter, limit ratelimit.Limit, account func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := l.Allow(r.Context(), account(r), limit)
		refused := errors.Is(err, pglock.ErrNotAcquired)
		if err != nil && !refused {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("RateLimit-Limit", strconv.Itoa(d.Burst))
		w.Header().Set("RateLimit-Remaining", strconv.Itoa(d.Remaining))
		w.Header().Set("RateLimit-Reset", seconds(d.ResetAfter))
		if refused {
			w.Header().Set("Retry-After", seconds(d.RetryAfter))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// seconds rounds up: a client that came back earlier would be refused again.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
