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
	chosen bool // exclusive, and the caller chose the token and may reuse it; see release_owned.lua
	polled bool // waited without a place in a common line
	token  string
	locker string // the Locker's name when the grant was made
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
	asked   []call // the last attempt, by node
	attempt uint64 // on Redlock, the number of an attempt that follows another one, otherwise 0
}

func (b *backend) newGrant(r driver.Request) *grant {
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

// check refuses tokens and keys that collide with this package's own values and keys.
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

// place names the grant in the lines of waiters: "INSTANCE NUMBER TOKEN".
func (g *grant) place() string { return g.locker + " " + g.number() + " " + g.token }

// waiter names the grant as a holder of key i that is shared or whose token was chosen, and as the waiter for it:
// "INSTANCE NUMBER TOKEN", or "INSTANCE NUMBER.ATTEMPT TOKEN".
func (g *grant) waiter(i int) string {
	attempt := g.keys[i].attempt
	if attempt == 0 {
		return g.place()
	}
	number, mark := strings.CutSuffix(g.number(), chosenMark)
	number += "." + strconv.FormatUint(attempt, 10)
	if mark {
		number += chosenMark
	}
	return g.locker + " " + number + " " + g.token
}

// value is what the key of lock i contains while it is held exclusively: the token, or "TOKEN-ATTEMPT".
func (g *grant) value(i int) string {
	if attempt := g.keys[i].attempt; attempt != 0 && !g.chosen {
		return g.token + "-" + strconv.FormatUint(attempt, 10)
	}
	return g.token
}

// attemptAnew tells the next attempt to acquire keys apart from the last one. On Redlock a release that undoes the
// last one may reach a node late, when the next one has succeeded there.
func (b *backend) attemptAnew(keys []holding) {
	if !b.redlock() {
		return
	}
	attempt := b.serial.Add(1)
	for i := range keys {
		keys[i].attempt = attempt
	}
}

// number is what messages to the Locker call the waiter.
func (g *grant) number() string {
	number := strconv.FormatUint(g.serial, 10)
	if g.chosen {
		number += chosenMark
	}
	return number
}

// chosenMark ends the number of a grant whose token was chosen.
const chosenMark = "!"

// Deadline implements [driver.Grant].
func (g *grant) Deadline() driver.Instant { return driver.Instant(g.until.Load()) }

// Polled implements [driver.PolledGrant].
func (g *grant) Polled() bool { return g.polled }

// owner names the grant as a holder of key i.
func (g *grant) owner(i int) string {
	if g.shared {
		return g.waiter(i)
	}
	return g.value(i)
}

// tokenOf returns the token in the name of a waiter or a shared holder.
func tokenOf(waiter string) string {
	parts := strings.SplitN(waiter, " ", 3)
	return parts[len(parts)-1]
}

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

// clear notes that none of the keys is held.
func (g *grant) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = 0
}

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

// callsAbout makes a script call about one of g's keys for every node.
func (b *backend) callsAbout(g *grant, i int, s *script, args ...any) []call {
	return concerning(g.keys[i:i+1], b.calls(s, g.keys[i].keys(s.keys), args...))
}

// concerning notes which locks calls are about.
func concerning(about []holding, calls []call) []call {
	for i := range calls {
		calls[i].about = about
	}
	return calls
}

// releaseCalls returns the calls that release a key; an offer to the next in line lasts for offer milliseconds.
func (b *backend) releaseCalls(g *grant, i int, offer int64) []call {
	if g.keys[i].attempt != 0 && offer != releaseSilent { // nodes that refused it still have it in line
		return b.withdrawCalls(g, i)
	}
	var calls []call
	switch {
	case g.shared:
		calls = b.callsAbout(g, i, releaseShared, g.waiter(i), offer)
	case g.chosen:
		calls = b.callsAbout(g, i, releaseOwned, g.value(i), offer, g.waiter(i))
	default:
		r := request{script: releaseExclusive, gives: &g.keys[i].names, token: g.value(i), millis: offer}
		calls = concerning(g.keys[i:i+1], b.ask(r, singleKeyRelease))
	}
	return g.keys[i].undoing(calls)
}

// withdrawCalls returns the calls that end a wait and release the locks that it may have acquired.
func (b *backend) withdrawCalls(g *grant, i int) []call {
	var calls []call
	switch {
	case g.shared:
		calls = b.callsAbout(g, i, withdrawShared, g.waiter(i), b.offerMillis)
	case g.chosen:
		calls = b.callsAbout(g, i, withdrawOwned, g.value(i), g.waiter(i), b.offerMillis)
	default:
		calls = withSingleKey(b.callsAbout(g, i, withdrawExclusive, g.value(i), g.waiter(i), b.offerMillis), singleKeyWithdraw)
	}
	return g.keys[i].undoing(calls)
}

func (b *backend) checkCalls(g *grant, i int) []call {
	switch {
	case g.shared:
		return b.callsAbout(g, i, checkShared, g.waiter(i))
	case g.chosen:
		return b.callsAbout(g, i, checkOwned, g.value(i), g.waiter(i))
	}
	return b.callsAbout(g, i, checkExclusive, g.value(i))
}

func (b *backend) renewCalls(g *grant, i int) []call {
	switch {
	case g.shared:
		return b.callsAbout(g, i, renewShared, g.waiter(i), b.leaseMillis)
	case g.chosen:
		return b.callsAbout(g, i, renewOwned, g.value(i), b.leaseMillis, g.waiter(i))
	}
	return b.callsAbout(g, i, renewExclusive, g.value(i), b.leaseMillis)
}

// undoing marks calls as the undo of the last attempt.
func (h *holding) undoing(calls []call) []call {
	for n := range h.asked {
		calls[n].undoes = &h.asked[n]
	}
	return calls
}

// singleKeyRelease and singleKeyWithdraw use the lock's key alone.
func singleKeyRelease(r request) request {
	return request{script: releaseSingleKey, keys: r.gives.keys(1), args: []any{r.token}}
}

func singleKeyWithdraw(r request) request {
	return request{script: releaseSingleKey, keys: r.keys[:1], args: r.args[:1]}
}

// withSingleKey sets the form of calls while a slot migrates.
func withSingleKey(calls []call, form func(request) request) []call {
	for c := range calls {
		calls[c].singleKey = form
	}
	return calls
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
