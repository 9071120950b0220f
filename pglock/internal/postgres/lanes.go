package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// lanes are the main sessions, which carry all uncontended locks.
//
// What callers ask for is queued, and a session that is ready takes everything that is queued in one statement: its own
// releases first, then the tries of everybody. A session is ready while it has few statements on their way, so a caller
// who is alone has his statement written at once, and the more callers there are, the more share one. Nobody waits for a
// timer.
//
// A session whose keys others wait for must never wait itself, or PostgreSQL would see cycles between unrelated locks:
// here nothing waits in the server.
type lanes struct {
	backend *Backend

	mu         sync.Mutex
	closed     bool // for tries; releases go on until the sessions are ended
	open       []*mainSession
	pending    []*ask // tries that no session has taken
	busy       int    // asks that have not been answered
	dialing    int
	keys       int           // held or asked for, also on other sessions
	limit      int           // of keys; 0 until a server has told
	arrival    chan struct{} // closed by the next end of a dial; nil when nobody waits for one
	failure    error         // of the last dial
	shared     map[driver.KeyID]*sharedKey
	patrols    *time.Timer // runs patrol; see patience.go
	patrolling bool
}

// submit queues a, and has it sent if a session is ready. A release goes to the session that holds the lock. It returns
// the session that the caller is to read from; nil when others will.
func (l *lanes) submit(a *ask) (leads *mainSession, err error) {
	l.mu.Lock()
	s, err := l.queue(a)
	if s != nil && s.ready() && s.gathers() {
		s.letOthersCome()
	}
	more := s != nil && !s.gathering && s.load() // who lets others come sends what they bring
	if more && s.expectAnswer(a) {
		leads = s
	}
	l.mu.Unlock()
	if more {
		s.flush()
	}
	return leads, err
}

// queue puts a where it belongs, and returns the session that is to take it if it is ready. It runs under mu.
func (l *lanes) queue(a *ask) (*mainSession, error) {
	a.state = pending
	switch {
	case a.release:
		l.count()
		s := a.grant.lane
		if s.cause != nil {
			l.fail(a, lostBecause(s.cause))
			return nil, nil
		}
		s.releases = append(s.releases, a)
		return s, nil
	case l.closed:
		return nil, driver.ErrClosed
	}
	if err := l.admit(a.grant); err != nil {
		return nil, err
	}
	l.count()
	l.pending = append(l.pending, a)
	s := l.choose(a.caller.last)
	if (s == nil || len(s.inFlight) > 0) && l.mayDial() {
		l.startDial()
	}
	return s, nil
}

// mayDial reports whether one more session would be of use. It runs under mu.
func (l *lanes) mayDial() bool {
	n := len(l.open) + l.dialing
	return n < min(l.backend.config.Sessions, combining) || n < l.backend.config.Sessions && l.dialing == 0 && l.few()
}

// trying returns the sessions that take tries. A session for each caller is best while there are few of them; for more
// callers, who share statements, as few sessions as can keep both sides busy. It runs under mu.
func (l *lanes) trying() []*mainSession {
	if len(l.open) <= combining || l.few() {
		return l.open
	}
	return l.open[:combining]
}

// share is how many asks a statement should have at most, while there are tries that another session can take: half of
// what would be a session's fair part, so that there is always something on its way, something in the server, and
// somebody whom an answer has just woken. Without a bound most callers come to wait for one statement, and then the server
// and the callers take turns instead of working side by side. It runs under mu.
func (l *lanes) share() int {
	statements := 2 * len(l.trying())
	if l.far() {
		statements *= 2
	}
	return min(maxAsks, max(manyAsks, l.busy/statements))
}

// few reports whether there are so few callers that each can have a session; when the server is far, where several
// statements are on their way on each, a few more. It runs under mu.
func (l *lanes) few() bool {
	n := l.backend.config.Sessions
	if l.far() {
		n *= 4
	}
	return l.busy <= n
}

// far reports whether the server is. It runs under mu.
func (l *lanes) far() bool { return len(l.open) > 0 && l.open[0].isFar() }

// count counts one more ask. With it, fewer sessions may take tries than before. It runs under mu.
func (l *lanes) count() {
	few := l.few()
	l.busy++
	l.expectPatrol()
	if few && !l.few() && len(l.open) > combining {
		l.kick()
	}
}

// kick has the tries sent that may have been left to a session which does not take them any more, unless somebody is
// about to send on one that does. It runs under mu.
func (l *lanes) kick() {
	if len(l.pending) == 0 {
		return
	}
	for _, s := range l.trying() {
		if s.ready() && s.isAboutToSend() {
			return
		}
	}
	if s := l.leastBusy(); s != nil && s.ready() {
		go s.proceed()
	}
}

// choose returns the session that is to take a try: the last one of its caller if that is idle. It runs under mu.
func (l *lanes) choose(last *mainSession) *mainSession {
	if last != nil && last.lanes == l && last.cause == nil && len(last.inFlight) == 0 && last.tries() {
		return last
	}
	return l.leastBusy()
}

// leastBusy returns the session with the fewest statements on their way; nil when there is none. It runs under mu.
func (l *lanes) leastBusy() (least *mainSession) {
	for _, s := range l.trying() {
		if least == nil || s.busier(least) < 0 {
			least = s
		}
	}
	return least
}

// admit counts what a try asks for, unless it cannot be tried here. It runs under mu.
func (l *lanes) admit(g *grant) error {
	if err := l.expectShared(g); err != nil {
		return err
	}
	err := l.reserve(g.len())
	if err != nil && g.shared {
		for i := range g.len() {
			l.forgetShared(g, i)
		}
	}
	return err
}

// reserve counts keys, unless that is too many. It runs under mu.
func (l *lanes) reserve(n int) error {
	if l.limit > 0 && l.keys+n > l.limit {
		return l.tooMany()
	}
	l.keys += n
	return nil
}

func (l *lanes) tooMany() error {
	return fmt.Errorf("%w: %d keys are held or asked for, and more than %d could fill the server's lock table, "+
		"which breaks all of its sessions (raise max_locks_per_transaction, or see WithMaxHeld)",
		driver.ErrTooManyLocks, l.keys, l.limit)
}

// reserveKeys and unreserveKeys are for grants of other sessions than these.
func (l *lanes) reserveKeys(n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reserve(n)
}

func (l *lanes) unreserveKeys(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys -= n
}

// dial opens one more session, and on failure gives the error to everybody who would have to wait for ever.
func (l *lanes) dial() {
	defer l.backend.background.Done()
	ctx, cancel := context.WithTimeout(l.backend.life, l.backend.config.Conn.ConnectTimeout)
	defer cancel()
	s, err := openMain(ctx, l.backend)
	l.mu.Lock()
	l.dialing--
	l.failure = err
	if l.arrival != nil {
		close(l.arrival)
		l.arrival = nil
	}
	switch {
	case err == nil && l.closed:
		l.mu.Unlock()
		s.end(driver.ReasonClosed, driver.ErrClosed)
		return
	case err == nil:
		if l.limit == 0 && l.backend.config.MaxKeys == 0 {
			l.setLimit(max(1, s.lockTable/4))
		}
		l.open = append(l.open, s)
	case len(l.open)+l.dialing == 0:
		l.failPending(err)
	}
	l.mu.Unlock()
	if err == nil {
		s.start()
		s.proceed()
	}
}

// startDial opens one more session in the background. It runs under mu.
func (l *lanes) startDial() {
	l.dialing++
	l.backend.background.Add(1)
	go l.dial()
}

// setLimit sets the bound, and turns away those who came before it was known. It runs under mu.
func (l *lanes) setLimit(limit int) {
	l.limit = limit
	for l.keys > limit && len(l.pending) > 0 {
		last := len(l.pending) - 1
		a := l.pending[last]
		l.pending = l.pending[:last]
		l.fail(a, l.tooMany())
	}
}

// failPending answers all queued tries. It runs under mu.
func (l *lanes) failPending(err error) {
	for _, a := range l.pending {
		l.fail(a, err)
	}
	l.pending = nil
}

// fail answers an ask that came to nothing.
func (l *lanes) fail(a *ask, err error) {
	if l.answer(a, nil, err) {
		a.caller.wake <- nil
	}
}

// answer settles an ask: done says for which keys it was carried out. A grant that was tried for keeps the keys that it
// got. It reports whether the caller is still there and must be woken, after which the ask is the caller's again. It
// runs under mu.
func (l *lanes) answer(a *ask, done []bool, err error) (wake bool) {
	l.busy--
	if a.state != abandoned {
		wake = a.caller != nil
		a.err, a.state = err, answered
		if a.release && err == nil && slices.Contains(done, false) {
			a.err = lostBecause(errors.New("the server session did not hold the key"))
		}
	}
	if a.release {
		return wake
	}
	g := a.grant
	l.reduce(g, done)
	if !wake && g.len() > 0 { // nobody is there to take it
		l.busy++
		g.lane.releases = append(g.lane.releases, &ask{grant: g, release: true})
	}
	return wake
}

// reduce makes g what it got. It runs under mu.
func (l *lanes) reduce(g *grant, got []bool) {
	for i := range g.len() {
		if i >= len(got) || !got[i] {
			l.forgetKey(g, i)
		}
	}
	g.keep(got)
}

// forgetKey counts a key of g that is not held any more. It runs under mu.
func (l *lanes) forgetKey(g *grant, i int) {
	l.keys--
	if g.shared {
		l.forgetShared(g, i)
	}
}

// forgetGrant counts all of g's keys. It runs under mu.
func (l *lanes) forgetGrant(g *grant) {
	for i := range g.len() {
		l.forgetKey(g, i)
	}
}

// whyPending says what is wrong with a server that has left asks pending; nil when it is only busy. It runs under mu.
func (l *lanes) whyPending() error {
	if len(l.open) == 0 {
		return errNoConnection
	}
	for _, s := range l.open {
		if s.unanswered(driver.Now()) < answerPatience {
			return nil
		}
	}
	return errNoAnswer
}

var (
	errNoConnection = errors.New("no connection yet")
	errNoAnswer     = errors.New("no answer")
)

// withdraw takes a pending try back. It runs under mu.
func (l *lanes) withdraw(a *ask) {
	l.pending = slices.DeleteFunc(l.pending, func(other *ask) bool { return other == a })
	l.busy--
	l.forgetGrant(a.grant)
}

// remove forgets a session that has ended. It runs under mu.
func (l *lanes) remove(s *mainSession) {
	is := func(other *mainSession) bool { return other == s }
	l.open = slices.DeleteFunc(l.open, is)
	if len(l.pending) > 0 && len(l.open)+l.dialing == 0 && !l.closed {
		l.startDial()
	}
	l.kick() // one that did not take tries before may be idle
}

// refuse fails tries from now on, and those that have not been sent.
func (l *lanes) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.failPending(driver.ErrClosed)
}

// close ends all sessions.
func (l *lanes) close() {
	l.refuse()
	l.mu.Lock()
	open := slices.Clone(l.open)
	l.mu.Unlock()
	for _, s := range open {
		s.end(driver.ReasonClosed, nil)
	}
	for _, s := range open {
		<-s.readerDone
	}
}

// try locks g's keys on a main session, all or none, or returns ErrNotAcquired.
func (l *lanes) try(ctx context.Context, g *grant) error {
	wanted := g.len()
	a := g.newAsk(false)
	leads, err := l.submit(a)
	if err != nil {
		return err
	}
	if err := l.await(ctx, a, leads); err != nil {
		if l.holdsPart(a) { // of several keys, when the statement failed in the middle
			_ = l.release(g) // if that fails the session has ended, which gives them back too
		}
		return err
	}
	a.leave()
	switch g.len() {
	case wanted:
		return nil
	case 0:
		return driver.ErrNotAcquired
	}
	if err := l.release(g); err != nil {
		// The keys that were free are so again in any case; and nothing was held that could have been lost.
		return errSessionEnded{fmt.Errorf("give back what was free of several keys: %v", err)}
	}
	return driver.ErrNotAcquired
}

// holdsPart reports whether a failed try has left keys locked.
func (l *lanes) holdsPart(a *ask) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return a.state == answered && a.grant.len() > 0
}

// release gives g's keys back. Whatever it returns, they are given back as soon as the server takes the statement.
func (l *lanes) release(g *grant) error {
	if g.shared && l.part(g) {
		return nil
	}
	a := g.newAsk(true)
	leads, err := l.submit(a)
	if err != nil {
		return err
	}
	a.awaitAnswer(leads)
	if err = a.err; err == errNoAnswer {
		return fmt.Errorf("%w: %w to the release within %v; the server frees the lock when it takes the statement, "+
			"or when the lease is over", driver.ErrUnavailable, err, driver.ReleaseWithin)
	}
	a.leave()
	return err
}

// call runs a statement of its own kind on any main session.
func (l *lanes) call(ctx context.Context, sql string, args ...string) (row string, some bool, err error) {
	for attempt := 0; ; attempt++ {
		s, err := l.any(ctx)
		if err != nil {
			return "", false, err
		}
		row, some, err = s.do(ctx, sql, args...)
		if err == nil || attempt > 0 || !s.hasEnded() || ctx.Err() != nil {
			return row, some, err
		}
	}
}

// any returns a main session, and dials one if there is none.
func (l *lanes) any(ctx context.Context) (*mainSession, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for dialled := false; ; dialled = true {
		switch {
		case l.closed:
			return nil, driver.ErrClosed
		case len(l.open) > 0:
			return l.open[0], nil
		case dialled && l.dialing == 0 && l.failure != nil:
			return nil, l.failure
		}
		if l.dialing == 0 {
			l.startDial()
		}
		if l.arrival == nil {
			l.arrival = make(chan struct{})
		}
		arrival := l.arrival
		l.mu.Unlock()
		select {
		case <-arrival:
			l.mu.Lock()
		case <-ctx.Done():
			l.mu.Lock()
			return nil, context.Cause(ctx)
		}
	}
}

const (
	combining = 2 // sessions that serve any number of callers
	// releasePatience and the second until somebody looks are together driver.ReleaseWithin.
	releasePatience = driver.ReleaseWithin - lookEvery
	lookEvery       = time.Second
)
