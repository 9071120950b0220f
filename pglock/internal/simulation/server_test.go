package simulation

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// server is the simulated PostgreSQL. The simulation's mu guards it, unless something else is said.
type server struct {
	s         *simulation
	locks     locks
	processes map[uint32]*process
	last      uint32
	all       sync.WaitGroup

	// Properties of the server that a schedule chooses:
	blind   bool          // a process that waits for a lock does not notice that its client is gone (PostgreSQL 13)
	sliced  bool          // no session can wait without a snapshot
	lease   time.Duration // idle_session_timeout, by a clock that may be faster or slower than the clients'
	refuses bool          // a fault: connections are refused
	full    bool          // a fault: the lock table is full
	frozen  chan struct{} // a fault: nothing is done until it is closed
}

func newServer(s *simulation) *server {
	v := &server{s: s, processes: map[uint32]*process{}}
	v.locks = locks{all: map[driver.KeyID]*lock{}, granted: s.oracle.granted}
	v.blind, v.sliced = s.chance(4), s.chance(8)
	v.lease = s.lease * time.Duration(93+s.random.IntN(10)) / 100 // it may be a tenth faster
	return v
}

// accept takes a connection, and reports whether it did.
func (v *server) accept(l *link) bool {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if v.refuses {
		return false
	}
	p := &process{server: v, link: l, conn: l.ends[1], back: pgproto3.NewBackend(l.ends[1], l.ends[1]), random: l.random, signal: make(chan struct{}, 1)}
	v.all.Add(1)
	go p.run()
	return true
}

// enlist makes a process of the server of what has sent a startup message.
func (v *server) enlist(p *process) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.last++
	p.pid = v.last
	p.link.process.Store(p)
	v.processes[p.pid] = p
	v.s.trace("process %d begins, for Locker %d on connection %d", p.pid, p.link.host.locker, p.link.number)
}

// cancel handles a cancel request, or pg_cancel_backend. It may take effect a moment later.
func (v *server) cancel(pid uint32, why string) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	p := v.processes[pid]
	if p == nil {
		return
	}
	time.AfterFunc(p.upTo(v.s.distance), func() {
		v.s.mu.Lock()
		defer v.s.mu.Unlock()
		v.s.trace("process %d is cancelled (%s), busy: %v", pid, why, p.busy)
		if p.busy {
			p.cancelled = true
			p.wake()
		}
	})
}

// terminate ends a process as pg_terminate_backend does.
func (v *server) terminate(p *process, why string) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.s.trace("process %d is terminated (%s)", p.pid, why)
	p.terminated = true
	p.wake()
	_ = p.conn.SetReadDeadline(longAgo)
}

// running returns the processes, in the order in which they began.
func (v *server) running() (all []*process) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	for pid := uint32(1); pid <= v.last; pid++ {
		if p := v.processes[pid]; p != nil {
			all = append(all, p)
		}
	}
	return all
}

// freeze stops the server until the returned function is called.
func (v *server) freeze() (thaw func()) {
	frozen := make(chan struct{})
	v.set(func() { v.frozen = frozen })
	return func() {
		v.set(func() { v.frozen = nil })
		close(frozen)
	}
}

// awaitThaw waits while the server is frozen.
func (v *server) awaitThaw() {
	var frozen chan struct{}
	v.set(func() { frozen = v.frozen })
	if frozen != nil {
		<-frozen
	}
}

// set changes a property under mu.
func (v *server) set(change func()) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	change()
}

var longAgo = time.Unix(1, 0)

// secret is the key of cancel requests.
func secret(pid uint32) []byte { return binary.BigEndian.AppendUint32(nil, ^pid) }
