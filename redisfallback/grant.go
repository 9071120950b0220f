package redisfallback

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// grant is a set of keys that are held, or are about to be.
type grant struct {
	shared bool
	chosen bool // exclusive, and the token is the caller's, who may use it again; see release_owned.lua
	polled bool // waited without a place in a line that all nodes agree on
	token  string
	locker string // as the Locker was called when the grant was made
	serial uint64 // names the grant among the Locker's

	until atomic.Int64 // a driver.Instant
	sent  atomic.Int64 // when the last renewal was, or the acquisition

	keys []holding // all that are wanted
	only [1]holding

	mu   sync.Mutex
	held int // how many of the keys are, from the first on
	lost func(driver.Reason, error)
}

// holding is one key of a grant.
type holding struct {
	names
	asked []call // by node: the last attempt
}

func (b *Backend) newGrant(r driver.Request) *grant {
	g := &grant{shared: r.Shared, token: r.Token.String(), locker: b.locker(), serial: b.serial.Add(1)}
	g.chosen = r.Token.Number == 0 && !r.Shared
	if g.keys = g.only[:]; len(r.Keys) > 1 {
		g.keys = make([]holding, len(r.Keys))
	}
	for i, key := range r.Keys {
		g.keys[i].names = namesOf(b.prefix, key)
	}
	return g
}

// check refuses what cannot be kept apart from this package's own keys and values.
func (g *grant) check() error {
	if g.token == sharedValue {
		return fmt.Errorf("%w: the token %q marks shared locks", driver.ErrUnsupported, sharedValue)
	}
	for i := range g.keys {
		if err := g.keys[i].names.check(); err != nil {
			return err
		}
	}
	return nil
}

// waiter is how the grant waits, and how it holds when it is shared: "INSTANCE NUMBER TOKEN".
func (g *grant) waiter() string { return g.locker + " " + g.number() + " " + g.token }

// number is what a message to the Locker calls the waiter.
func (g *grant) number() string {
	number := strconv.FormatUint(g.serial, 10)
	if g.chosen {
		number += "!"
	}
	return number
}

// Deadline implements [driver.Grant].
func (g *grant) Deadline() driver.Instant { return driver.Instant(g.until.Load()) }

// Polled implements [driver.Poller].
func (g *grant) Polled() bool { return g.polled }

// owner is how the grant is known where it holds.
func (g *grant) owner() string {
	if g.shared {
		return g.waiter()
	}
	return g.token
}

// tokenOf is what a waiter or a shared holder has for a token.
func tokenOf(waiter string) string {
	parts := strings.SplitN(waiter, " ", 3)
	return parts[len(parts)-1]
}

// holdings are the keys that are held.
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

// clear forgets that keys were held.
func (g *grant) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = 0
}

// tell sets whom to tell of a loss.
func (g *grant) setListener(lost func(driver.Reason, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost = lost
}

func (g *grant) listener() func(driver.Reason, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}

// callsAbout makes a script call about a key of g's for every node.
func (b *Backend) callsAbout(g *grant, i int, s *script, args ...any) []call {
	return concerning(g.keys[i:i+1], b.calls(s, g.keys[i].keys(s.keys), args...))
}

// concerning says which locks calls are about.
func concerning(about []holding, calls []call) []call {
	for i := range calls {
		calls[i].about = about
	}
	return calls
}

// releaseCalls gives a key back; an offer to the next in line lasts for so many milliseconds.
func (b *Backend) releaseCalls(g *grant, i int, offer int64) []call {
	var calls []call
	switch {
	case g.shared:
		calls = b.callsAbout(g, i, releaseShared, g.waiter(), offer)
	case g.chosen:
		calls = b.callsAbout(g, i, releaseOwned, g.token, offer, g.waiter())
	default:
		r := request{script: releaseExclusive, gives: &g.keys[i].names, token: g.token, millis: offer}
		calls = concerning(g.keys[i:i+1], b.ask(r, singleKeyRelease))
	}
	return g.keys[i].undoing(calls)
}

// withdrawCalls ends a wait and gives back what it may have got.
func (b *Backend) withdrawCalls(g *grant, i int) []call {
	var calls []call
	switch {
	case g.shared:
		calls = b.callsAbout(g, i, withdrawShared, g.waiter(), b.offerMillis)
	case g.chosen:
		calls = b.callsAbout(g, i, withdrawOwned, g.token, g.waiter(), b.offerMillis)
	default:
		calls = withSingleKey(b.callsAbout(g, i, withdrawExclusive, g.token, g.waiter(), b.offerMillis), singleKeyWithdraw)
	}
	return g.keys[i].undoing(calls)
}

func (b *Backend) checkCalls(g *grant, i int) []call {
	switch {
	case g.shared:
		return b.callsAbout(g, i, checkShared, g.waiter())
	case g.chosen:
		return b.callsAbout(g, i, checkOwned, g.token, g.waiter())
	}
	return b.callsAbout(g, i, checkExclusive, g.token)
}

func (b *Backend) renewCalls(g *grant, i int) []call {
	switch {
	case g.shared:
		return b.callsAbout(g, i, renewShared, g.waiter(), b.leaseMillis)
	case g.chosen:
		return b.callsAbout(g, i, renewOwned, g.token, b.leaseMillis, g.waiter())
	}
	return b.callsAbout(g, i, renewExclusive, g.token, b.leaseMillis)
}

// undoing says that calls take back the last attempt.
func (h *holding) undoing(calls []call) []call {
	for n := range h.asked {
		calls[n].undoes = &h.asked[n]
	}
	return calls
}

// singleKeyRelease, singleKeyWithdraw and singleKeyTake do with the lock's key alone what they can.
func singleKeyRelease(r request) request {
	return request{script: releaseSingleKey, keys: r.gives.keys(1), args: []any{r.token}}
}

func singleKeyWithdraw(r request) request {
	return request{script: releaseSingleKey, keys: r.keys[:1], args: r.args[:1]}
}

// withSingleKey says what calls do while a slot migrates.
func withSingleKey(calls []call, form func(request) request) []call {
	for c := range calls {
		calls[c].singleKey = form
	}
	return calls
}

// extend moves the deadline, which never moves back.
func (g *grant) extend(sent, until driver.Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent.Store(int64(max(sent, driver.Instant(g.sent.Load()))))
	g.until.Store(int64(max(until, g.Deadline())))
}

// renewSoon has the lease renewed at the next look, because the last attempt failed.
func (g *grant) renewSoon() { g.sent.Store(0) }
