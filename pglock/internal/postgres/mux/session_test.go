package mux

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/lease"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wiretest"
)

// owner records its notifications.
type owner struct {
	mu   sync.Mutex
	lost []driver.LostReason
}

func (o *owner) Lost(why driver.LostReason, _ error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost = append(o.lost, why)
}

func (o *owner) losses() []driver.LostReason {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lost)
}

func key(n int64) driver.KeyID { return driver.KeyID{Space: driver.SpaceBigint, Number: n} }

func grantOf(o driver.LossHandler, n int64) *Grant { return NewGrant(key(n), false, o) }

// rig is a session on a scripted server.
type rig struct {
	*testing.T
	locks   *wiretest.Locks
	server  *wiretest.Server
	session *Session
	budget  Budget

	mu   sync.Mutex
	sent []wiretest.Statement
}

const testLease = 10 * time.Second

// transports are the ways to the server.
var transports = map[string]transport{
	"without TLS": wiretest.Start, "with TLS": wiretest.StartTLS,
}

type transport = func(*wiretest.Locks, func(wiretest.Statement) wiretest.Verdict) (*wire.Conn, *wiretest.Server)

// overEach runs a test in a synctest bubble over each transport.
func overEach(t *testing.T, test func(*testing.T, transport)) {
	for name, start := range transports {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, start) }) })
	}
}

// newRig starts a session. judge decides what happens to its statements; if it is nil all are carried out.
func newRig(t *testing.T, judge func(wiretest.Statement) wiretest.Verdict) *rig {
	return newRigOver(t, wiretest.Start, judge)
}

func newRigOver(t *testing.T, start transport, judge func(wiretest.Statement) wiretest.Verdict) *rig {
	r := &rig{T: t, locks: wiretest.NewLocks(t)}
	conn, server := start(r.locks, func(st wiretest.Statement) wiretest.Verdict {
		r.mu.Lock()
		r.sent = append(r.sent, st)
		r.mu.Unlock()
		if judge == nil {
			return wiretest.Verdict{}
		}
		return judge(st)
	})
	r.server = server
	r.session = NewSession(conn, lease.New(testLease, driver.Now), &r.budget, slog.New(slog.DiscardHandler), func(*Session) {})
	return r
}

// close ends the session, and checks that no key is counted any more.
func (r *rig) close() {
	r.Helper()
	r.session.End(driver.LostClosed, nil)
	<-r.server.Done()
	synctest.Wait()
	if n := r.budget.used.Load(); n != 0 {
		r.Errorf("%d keys are still counted", n)
	}
}

// statements returns the statements for keys that were sent.
func (r *rig) statements() (sent []wiretest.Statement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, st := range r.sent {
		if st.SQL == "" {
			sent = append(sent, st)
		}
	}
	return sent
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Error(err)
	}
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 50*time.Millisecond)
}

// Callers that arrive while a statement is on its way share the next one, in which releases come first.
func TestSessionCombinesWhatIsQueuedReleasesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		r := newRig(t, func(wiretest.Statement) wiretest.Verdict {
			if slow.Load() {
				time.Sleep(time.Second)
			}
			return wiretest.Verdict{}
		})
		held := grantOf(new(owner), 100)
		r.must(r.session.Try(t.Context(), held))
		slow.Store(true)
		var all sync.WaitGroup
		all.Go(func() { r.must(r.session.Try(t.Context(), grantOf(new(owner), 1))) })
		synctest.Wait() // until its statement is on its way
		for n := range int64(10) {
			all.Go(func() { r.must(r.session.Try(t.Context(), grantOf(new(owner), 10+n))) })
		}
		synctest.Wait()
		all.Go(func() { r.must(held.Release(t.Context())) })
		all.Wait()
		sent := r.statements()
		if len(sent) != 3 {
			t.Fatalf("got %d statements, want 3: %v", len(sent), sent)
		}
		if last := sent[2]; len(last.Keys) != 11 || last.Keys[0] != 100 || !last.Releases(0) || last.Releases(1) {
			t.Errorf("the last one was %v", last)
		}
		if n := r.locks.Len(); n != 11 {
			t.Errorf("%d keys are held, want 11", n)
		}
		r.close()
	})
}

// After a statement has failed half-way, the session asks which keys it holds, and settles the statement accordingly.
func TestSessionReconcilesHalfAStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		r := newRig(t, func(st wiretest.Statement) wiretest.Verdict {
			if st.SQL == "" {
				time.Sleep(time.Microsecond)
			}
			if len(st.Keys) > 4 && !st.Asks && failing.CompareAndSwap(true, false) {
				return wiretest.Verdict{Upto: 4, Code: "53200"}
			}
			return wiretest.Verdict{}
		})
		var held []*Grant
		for n := range int64(2) {
			g := grantOf(new(owner), 100+n)
			r.must(r.session.Try(t.Context(), g))
			held = append(held, g)
		}
		failing.Store(true)
		var all sync.WaitGroup
		results := make([]error, 10)
		all.Go(func() { _, _, _ = r.session.Call(t.Context(), "select 1") })
		for _, g := range held {
			all.Go(func() { r.must(g.Release(t.Context())) })
		}
		for n := range results {
			all.Go(func() { results[n] = r.session.Try(t.Context(), grantOf(new(owner), int64(n))) })
		}
		all.Wait()
		granted := 0
		for n, err := range results {
			switch {
			case err == nil:
				granted++
				if r.locks.Holder(int64(n)) == nil {
					t.Errorf("key %d was granted but is not held", n)
				}
			case !errors.Is(err, driver.ErrTooManyLocks):
				t.Errorf("key %d: %v", n, err)
			}
		}
		if granted == 0 || granted == len(results) || r.locks.Len() != granted {
			t.Errorf("%d keys were granted, but %d are held", granted, r.locks.Len())
		}
		r.close()
	})
}

// A FATAL message ends the locks before the stream ends, whether the session is idle or in the middle of an answer. So does an
// answer too many, since it could be taken for the answer to a later statement.
func TestSessionEndsWithFatal(t *testing.T) {
	tooMany := []pgproto3.BackendMessage{&pgproto3.DataRow{Values: [][]byte{[]byte("t")}}, &pgproto3.ReadyForQuery{TxStatus: 'I'}}
	for name, says := range map[string][]pgproto3.BackendMessage{
		"idle": {wiretest.Fatal}, "in the middle of an answer": nil, "an answer too many": tooMany,
	} {
		t.Run(name, func(t *testing.T) {
			overEach(t, func(t *testing.T, start transport) {
				var half atomic.Bool
				r := newRigOver(t, start, func(st wiretest.Statement) wiretest.Verdict {
					return wiretest.Verdict{Fatal: half.Load(), Half: half.Load()}
				})
				o := new(owner)
				g := grantOf(o, 1)
				r.must(r.session.Try(t.Context(), g))
				if half.Store(says == nil); says == nil {
					if err := r.session.Try(t.Context(), grantOf(new(owner), 2)); !HasEnded(err) {
						t.Errorf("a try that was running at the end: %v", err)
					}
				} else {
					r.server.Say(says...) // only the message: the stream does not end
				}
				synctest.Wait()
				if got := o.losses(); !slices.Equal(got, []driver.LostReason{driver.LostSession}) {
					t.Errorf("the owner was notified of %v", got)
				}
				if err := g.Release(t.Context()); !errors.Is(err, driver.ErrLost) {
					t.Errorf("Release: %v", err)
				}
				r.close()
			})
		})
	}
}

// slowOwner takes a second to handle a loss.
type slowOwner struct{}

func (slowOwner) Lost(driver.LostReason, error) { time.Sleep(time.Second) }

// A session that is ending grants nothing, although its socket stays open until the holders have been notified.
func TestSessionGrantsNothingWhileItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(st wiretest.Statement) wiretest.Verdict {
			if slices.Contains(st.Keys, 2) {
				time.Sleep(100 * time.Millisecond)
			}
			return wiretest.Verdict{}
		})
		r.must(r.session.Try(t.Context(), grantOf(slowOwner{}, 1)))
		var all sync.WaitGroup
		all.Go(func() {
			if err := r.session.Try(t.Context(), grantOf(new(owner), 2)); !HasEnded(err) {
				t.Errorf("a try that was running at the end: %v", err)
			}
		})
		synctest.Wait() // until its statement is on its way
		r.session.End(driver.LostLease, nil)
		all.Wait()
		r.close()
	})
}

// A caller whose context ends withdraws what has not been sent, and a Mux that closes fails it; what has been sent is answered.
func TestSessionWithdrawsWhatIsQueued(t *testing.T) {
	stop := errors.New("stop")
	for name, want := range map[string]error{"its context ends": stop, "the Mux closes": driver.ErrClosed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(st wiretest.Statement) wiretest.Verdict {
					if slices.Contains(st.Keys, 2) {
						time.Sleep(10 * time.Millisecond)
					}
					return wiretest.Verdict{}
				})
				m := New(Config{Sessions: 1, Log: slog.New(slog.DiscardHandler)})
				m.open.Store(&[]*Session{r.session})
				r.must(r.session.Try(t.Context(), grantOf(new(owner), 1))) // answers fast, so one statement is on its way at a time
				var all sync.WaitGroup
				all.Go(func() { r.must(r.session.Try(t.Context(), grantOf(new(owner), 2))) })
				synctest.Wait()
				ctx, cancel := context.WithCancelCause(t.Context())
				all.Go(func() {
					if err := r.session.Try(ctx, grantOf(new(owner), 3)); !errors.Is(err, want) {
						t.Errorf("a try that was queued: %v", err)
					}
				})
				synctest.Wait()
				if want == stop {
					cancel(stop)
				} else {
					m.Refuse()
				}
				all.Wait()
				cancel(nil)
				for _, st := range r.statements() {
					if slices.Contains(st.Keys, 3) {
						t.Error("it was sent anyway")
					}
				}
				r.close()
			})
		})
	}
}

// The server freezes in the middle of an answer. A caller that does not need the answer returns exactly when its
// context ends, and so does one that is queued behind it. Other callers, whose contexts never end, get their answers
// when the server continues: the half that was read is not lost.
func TestSessionCallersReturnWhenTheirContextsEnd(t *testing.T) {
	overEach(t, func(t *testing.T, start transport) {
		frozen := make(chan struct{})
		r := newRigOver(t, start, func(st wiretest.Statement) wiretest.Verdict {
			switch st.SQL {
			case "select 'frozen'":
				return wiretest.Verdict{Half: true}
			case wiretest.Half:
				<-frozen
			}
			return wiretest.Verdict{}
		})
		r.must(r.session.Try(t.Context(), grantOf(new(owner), 1))) // answers fast, so one statement is on its way at a time
		began := time.Now()
		var left, stayed sync.WaitGroup
		leaves := func(after time.Duration, call func(context.Context) error) {
			left.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), after)
				defer cancel()
				err := call(ctx)
				if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took < after || took > after+waitEvery {
					t.Errorf("it returned %v after %v; its context ended after %v", err, took, after)
				}
			})
			synctest.Wait()
		}
		leaves(50*time.Millisecond, func(ctx context.Context) error {
			_, _, err := r.session.Call(ctx, "select 'frozen'")
			return err
		})
		for n := range int64(3) {
			stayed.Go(func() { r.must(r.session.Try(context.Background(), grantOf(new(owner), 10+n))) })
			synctest.Wait()
			leaves(time.Duration(n+1)*10*time.Millisecond, func(ctx context.Context) error {
				return r.session.Try(ctx, grantOf(new(owner), 20+n))
			})
		}
		left.Wait()
		close(frozen)
		stayed.Wait()
		if n := r.locks.Len(); n != 4 {
			t.Errorf("%d keys are held, want 4", n)
		}
		r.close()
	})
}

// A caller whose context ends while it writes is told then, and not again. If it read its answer, nothing would interrupt it.
func TestSessionACallerThatWasToldDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(wiretest.Statement) wiretest.Verdict { time.Sleep(time.Minute); return wiretest.Verdict{} })
		s := r.session
		ctx, cancel := soon()
		defer cancel()
		s.mu.Lock()
		o := s.newOp(ctx, call, nil)
		o.query = &query{sql: "select 1"}
		r.must(s.enqueueLocked(o))
		o.told = true // while it writes
		s.sendLocked()
		reads := s.mayReadLocked(o)
		s.mu.Unlock()
		if reads {
			t.Error("the caller reads")
		}
		r.close()
	})
}

// The server has stopped reading, and the write of a statement blocks. The caller that leads stays in the write until
// the session ends, with its lease or by Close. Nothing else waits for the write: the holder is notified in time, and
// other callers return when their contexts end.
func TestSessionEndsDuringAWrite(t *testing.T) {
	for name, closes := range map[string]bool{"with its lease": false, "by Close": true} {
		t.Run(name, func(t *testing.T) {
			overEach(t, func(t *testing.T, start transport) {
				frozen := make(chan struct{})
				var off atomic.Bool
				r := newRigOver(t, start, func(wiretest.Statement) wiretest.Verdict {
					if off.Load() {
						<-frozen
					}
					time.Sleep(time.Millisecond)
					return wiretest.Verdict{}
				})
				m := New(Config{Sessions: 1, Log: slog.New(slog.DiscardHandler)})
				m.open.Store(&[]*Session{r.session})
				o := new(owner)
				g := grantOf(o, 1)
				r.must(r.session.Try(t.Context(), g)) // answers slowly, so several statements may be on their way
				off.Store(true)
				ctx, cancel := soon()
				defer cancel()
				over := driver.Now().Add(50 * time.Millisecond)
				end, reason := g.Deadline(), driver.LostLease
				if closes {
					end, reason = driver.Now().Add(2*time.Second), driver.LostClosed
					time.AfterFunc(2*time.Second, m.Close)
				}
				var all sync.WaitGroup
				for n, caller := range []struct {
					ctx  context.Context
					want driver.Instant
				}{
					{ctx, over.Add(answerPatience)}, // its statement is read
					{ctx, end},                      // its statement is not
					{ctx, over},                     // queued
					{t.Context(), end},              // queued
				} {
					all.Go(func() {
						err := r.session.Try(caller.ctx, grantOf(new(owner), int64(2+n)))
						if late := driver.Now().Sub(caller.want); err == nil || late < 0 || late > waitEvery {
							t.Errorf("caller %d returned %v late: %v", n, late, err)
						}
					})
					synctest.Wait()
				}
				all.Wait()
				if got := o.losses(); !slices.Equal(got, []driver.LostReason{reason}) {
					t.Errorf("the owner was notified of %v", got)
				}
				close(frozen)
				r.close()
			})
		})
	}
}

// A release that gets no answer is given up after some seconds, even while it is not known which keys a failed statement
// has released, and also if the answer to an earlier statement was late. Its key is settled later.
func TestSessionReleaseOfAFrozenServer(t *testing.T) {
	for name, c := range map[string]struct{ fails, slow bool }{
		"before the release": {}, "while it is reconciled": {fails: true}, "after a late answer": {slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			overEach(t, func(t *testing.T, start transport) {
				frozen := make(chan struct{})
				var failed atomic.Bool
				r := newRigOver(t, start, func(st wiretest.Statement) wiretest.Verdict {
					releases := len(st.Operations) > 0 && st.Releases(0) && !st.Asks
					switch {
					case c.fails && releases && failed.CompareAndSwap(false, true):
						return wiretest.Verdict{Code: "57014"}
					case releases || st.Asks:
						<-frozen
					case st.SQL != "" && c.slow:
						time.Sleep(driver.ReleaseTimeout - 2*time.Second)
					}
					return wiretest.Verdict{}
				})
				g := grantOf(new(owner), 1)
				r.must(r.session.Try(t.Context(), g))
				if c.slow {
					go func() { _, _, _ = r.session.Call(t.Context(), "select 1") }()
					synctest.Wait()
				}
				began := time.Now()
				open, ok := errors.AsType[*driver.UnsettledError](g.Release(t.Context()))
				if took := time.Since(began); !ok || took > driver.ReleaseTimeout || !errors.Is(open, driver.ErrUnavailable) {
					t.Fatalf("after %v: %v", took, open)
				}
				close(frozen)
				<-open.Done
				if r.locks.Len() != 0 {
					t.Error("the key is settled but held")
				}
				r.close()
			})
		})
	}
}

// Heartbeats extend the lease. It ends the locks when the server has been silent for long enough.
func TestSessionLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := make(chan struct{})
		var beats atomic.Int32
		r := newRig(t, func(st wiretest.Statement) wiretest.Verdict {
			if st.SQL != "" {
				if beats.Add(1) > 20 {
					<-silent
				}
			}
			return wiretest.Verdict{}
		})
		o := new(owner)
		g := grantOf(o, 1)
		r.must(r.session.Try(t.Context(), g))
		time.Sleep(3 * testLease)
		if got := o.losses(); len(got) != 0 || beats.Load() < 10 {
			t.Fatalf("after %d heartbeats the owner was notified of %v", beats.Load(), got)
		}
		last := g.Deadline()
		for len(o.losses()) == 0 {
			last = g.Deadline()
			time.Sleep(10 * time.Millisecond)
		}
		if got := o.losses(); got[0] != driver.LostLease || driver.Now().Sub(last) > 20*time.Millisecond || driver.Now() < last {
			t.Errorf("the owner was notified of %v at %v; the deadline was %v", got, driver.Now(), last)
		}
		close(silent)
		r.close()
	})
}
