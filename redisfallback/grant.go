package redisfallback

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// grant is a key that is held or being acquired.
type grant struct {
	names
	attempt uint64 // the number of an attempt that follows another one, otherwise 0
	shared  bool
	token   string
	locker  string // the Locker's name
	serial  uint64 // identifies the grant within the Locker
	owner   driver.LossHandler

	mu    sync.Mutex   // for changes of
	until atomic.Int64 // a driver.Instant
	sent  atomic.Int64 // when the last renewal was, or the acquisition
}

func (b *backend) newGrant(r driver.Request) *grant {
	return &grant{
		names: namesOf(b.prefix, r.Key), shared: r.Shared, token: r.Token.String(), locker: b.locker, serial: b.serial.Add(1), owner: r.LossHandler,
	}
}

// value is what the lock's key contains while it is held exclusively: the token, or "TOKEN-ATTEMPT".
func (g *grant) value() string {
	if g.attempt != 0 {
		return g.token + "-" + strconv.FormatUint(g.attempt, 10)
	}
	return g.token
}

// place names the grant in the lines of waiters: "LOCKER NUMBER TOKEN".
func (g *grant) place() string { return g.locker + " " + g.number() + " " + g.token }

// number is what messages to the Locker call the waiter.
func (g *grant) number() string { return strconv.FormatUint(g.serial, 10) }

// holder names the grant as a shared holder: as its place, so that an offer to it is one to the holder, or
// "LOCKER NUMBER.ATTEMPT TOKEN".
func (g *grant) holder() string {
	if g.attempt != 0 {
		return g.locker + " " + g.number() + "." + strconv.FormatUint(g.attempt, 10) + " " + g.token
	}
	return g.place()
}

// tokenIn returns the token in an exclusive lock's value. A value of another library is its own token.
func tokenIn(value string) string {
	if last := strings.LastIndexByte(value, '-'); isOurs(value) && strings.IndexByte(value, '-') < last {
		return value[:last]
	}
	return value
}

// tokenOf returns the token in the name of a shared holder.
func tokenOf(holder string) string {
	parts := strings.SplitN(holder, " ", 3)
	return tokenIn(parts[len(parts)-1])
}

// isOurs reports whether a value looks like one that this package has made: 26 letters of crypto/rand.Text, "-", a number,
// and perhaps the number of an attempt; see foreign in common.lua.
func isOurs(value string) bool {
	const text = 26
	if len(value) < text+2 || value[text] != '-' {
		return false
	}
	for i, c := range []byte(value) {
		switch {
		case i < text && (c < 'A' || c > 'Z') && (c < '2' || c > '7'), i > text && (c < '0' || c > '9') && c != '-':
			return false
		}
	}
	return true
}

// Deadline implements [driver.Grant].
func (g *grant) Deadline() driver.Instant { return driver.Instant(g.until.Load()) }

// extend moves the deadline, never backwards.
func (g *grant) extend(sent, until driver.Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent.Store(int64(max(sent, driver.Instant(g.sent.Load()))))
	g.until.Store(int64(max(until, g.Deadline())))
}

// renewSoon makes the next tick renew the lease, because the last attempt failed.
func (g *grant) renewSoon() { g.sent.Store(0) }

// lostError is the error of a grant that was lost before.
func (g *grant) lostError() error {
	if driver.Now() >= g.Deadline() {
		return driver.Lost(driver.LostLease)
	}
	return driver.Lost(driver.LostGone)
}

// ours returns the grant behind held.
func ours(held driver.Grant) (*grant, error) {
	if g, ok := held.(*grant); ok {
		return g, nil
	}
	return nil, fmt.Errorf("a grant of type %T does not come from the Redis backend", held)
}
