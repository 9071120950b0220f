package redisfallback

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// grant is a set of keys that are held or being acquired.
type grant struct {
	shared bool
	token  string // as the caller knows it
	id     string // what its exclusive locks contain, which no other acquisition's do: the token, or TOKEN/ID if it was chosen
	locker string // the Locker's name
	serial uint64 // identifies the grant within the Locker

	until atomic.Int64 // a driver.Instant
	sent  atomic.Int64 // when the last renewal was, or the acquisition

	keys []holding // all keys that are wanted
	only [1]holding

	mu   sync.Mutex
	held int // how many of the keys, from the first on, are held
	lost func(driver.LostReason, error)
}

// holding is one key of a grant.
type holding struct {
	names
	attempt uint64 // the number of an attempt that follows another one, otherwise 0
}

func (b *backend) newGrant(r driver.Request) *grant {
	g := &grant{shared: r.Shared, token: r.Token, locker: b.locker, serial: b.serial.Add(1)}
	g.id = g.token
	if r.Chosen {
		g.id = g.token + "/" + b.instance + "-" + strconv.FormatUint(g.serial, 10)
	}
	g.keys = g.only[:]
	g.keys[0].names = namesOf(b.prefix, r.Key)
	return g
}

// check refuses keys that collide with this package's own.
func (g *grant) check() error {
	for i := range g.keys {
		if err := g.keys[i].names.check(); err != nil {
			return err
		}
	}
	return nil
}

// value is what the key of lock i contains while it is held exclusively: the grant's id, or "ID-ATTEMPT".
func (g *grant) value(i int) string {
	if attempt := g.keys[i].attempt; attempt != 0 {
		return g.id + "-" + strconv.FormatUint(attempt, 10)
	}
	return g.id
}

// place names the grant in the lines of waiters: "LOCKER NUMBER ID".
func (g *grant) place() string { return g.locker + " " + g.number() + " " + g.id }

// number is what messages to the Locker call the waiter.
func (g *grant) number() string { return strconv.FormatUint(g.serial, 10) }

// holder names the grant as a shared holder of key i: as its place, so that an offer to it is one to the holder, or
// "LOCKER NUMBER.ATTEMPT ID".
func (g *grant) holder(i int) string {
	if attempt := g.keys[i].attempt; attempt != 0 {
		return g.locker + " " + g.number() + "." + strconv.FormatUint(attempt, 10) + " " + g.id
	}
	return g.place()
}

// attemptAnew tells the next attempt to acquire keys apart from the last one: a release that undoes the last one may reach a
// node late, when the next one has succeeded there.
func (b *backend) attemptAnew(keys []holding) {
	for i := range keys {
		keys[i].attempt = b.serial.Add(1)
	}
}

// tokenIn returns the token in an exclusive lock's value. A value of another library is its own token.
func tokenIn(value string) string {
	if slash := strings.LastIndexByte(value, '/'); slash >= 0 && isOurs(value[slash+1:]) {
		return value[:slash]
	}
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

// holdings returns the keys that are held.
func (g *grant) holdings() []holding {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.keys[:g.held]
}

// add counts the next key as held, trusted until then.
func (g *grant) add(sent, until driver.Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == 0 || until < g.Deadline() {
		g.until.Store(int64(until))
		g.sent.Store(int64(sent))
	}
	g.held++
}

// extend moves the deadline, never backwards.
func (g *grant) extend(sent, until driver.Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent.Store(int64(max(sent, driver.Instant(g.sent.Load()))))
	g.until.Store(int64(max(until, g.Deadline())))
}

// renewSoon makes the next tick renew the lease, because the last attempt failed.
func (g *grant) renewSoon() { g.sent.Store(0) }

// setListener sets the function that is called when the grant is lost.
func (g *grant) setListener(lost func(driver.LostReason, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost = lost
}

func (g *grant) listener() func(driver.LostReason, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}

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
