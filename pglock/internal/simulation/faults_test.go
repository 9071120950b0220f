package simulation

import (
	"context"
	"time"
)

// disturb lets a few things fail, one after another or at the same time. All of it ends.
func (s *simulation) disturb() {
	done := make(chan struct{})
	n := 1 + s.random.IntN(4)
	for range n {
		time.Sleep(s.vary(s.random, s.lease/4))
		f := faults[s.random.IntN(len(faults))]
		long := s.vary(s.random, []time.Duration{20 * s.distance, s.lease, 2 * s.lease}[s.random.IntN(3)])
		s.mu.Lock()
		s.count.faults[f.name]++
		s.trace("FAULT: %s, for %v", f.name, long)
		s.mu.Unlock()
		end := f.begin(s, long)
		go func() {
			end()
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
	s.trace("FAULTS are over")
}

// fault is what fails. begin returns a function that waits for the end.
type fault struct {
	name  string
	begin func(s *simulation, long time.Duration) (end func())
}

var faults = []fault{
	{"a silent host", silentHost},
	{"a silent host", silentHost},
	{"a silent connection", onLink(func(s *simulation, l *link, long time.Duration) func() {
		d := s.direction()
		l.silence(d)
		return func() {
			if s.forEver(long) { // and something in between answers keepalives
				<-s.finished
			} else {
				time.Sleep(long)
			}
			l.heal(d)
		}
	})},
	{"a connection that gets slow, then silent", onLink(func(s *simulation, l *link, long time.Duration) func() {
		s.server.set(func() { l.process.Load().dying = 1 + long })
		return func() {
			<-s.finished
			l.heal(direction{false, true})
		}
	})},
	{"a broken connection", onLink(func(s *simulation, l *link, _ time.Duration) func() {
		l.cut(errReset, [][]*end{l.ends[:], l.ends[:1], l.ends[1:]}[s.random.IntN(3)]...)
		return nil
	})},
	{"a lost answer", onLink(func(s *simulation, l *link, _ time.Duration) func() {
		s.server.set(func() { l.process.Load().loses = true })
		return nil
	})},
	{"pg_terminate_backend", onLink(func(s *simulation, l *link, _ time.Duration) func() {
		s.server.terminate(l.process.Load(), "by a person")
		return nil
	})},
	{"pg_cancel_backend", onLink(func(s *simulation, l *link, _ time.Duration) func() {
		s.server.cancel(l.process.Load().pid, "by a person")
		return nil
	})},
	{"a restart", func(s *simulation, long time.Duration) func() {
		s.server.set(func() { s.server.refuses = true })
		for _, p := range s.server.running() {
			s.server.terminate(p, "by a restart")
		}
		return s.acceptAfter(long)
	}},
	{"a crash", func(s *simulation, long time.Duration) func() {
		s.server.set(func() { s.server.refuses = true })
		for _, l := range s.network.open() {
			l.cut(errReset, l.ends[:]...)
		}
		return s.acceptAfter(long)
	}},
	{"refused connections", func(s *simulation, long time.Duration) func() {
		s.server.set(func() { s.server.refuses = true })
		return s.acceptAfter(long)
	}},
	{"a frozen server", func(s *simulation, long time.Duration) func() {
		thaw := s.server.freeze()
		return func() {
			time.Sleep(long)
			thaw()
		}
	}},
	{"a full lock table", func(s *simulation, long time.Duration) func() {
		s.server.set(func() { s.server.full = true })
		return func() {
			time.Sleep(long)
			s.server.set(func() { s.server.full = false })
		}
	}},
	{"Close", func(s *simulation, long time.Duration) func() {
		i := s.random.IntN(len(s.lockers))
		l := s.lockers[i]
		s.server.set(func() { s.closed[i] = true })
		s.trace("it is Locker %d", i)
		return func() {
			ctx, cancel := context.WithTimeout(context.Background(), long)
			defer cancel()
			began := time.Now()
			_ = l.Close(ctx)
			if long == 0 {
				long = 3 * time.Second // a Close whose context has ended
			}
			if took := time.Since(began); took > long+200*time.Millisecond {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.wrong("Close took %v instead of %v", took, long)
			}
		}
	}},
}

// silentHost stops what one host sends, or what is sent to it, or both.
func silentHost(s *simulation, long time.Duration) func() {
	h, d := s.network.hosts[s.random.IntN(len(s.network.hosts))], s.direction()
	h.silence(d)
	keepalives := s.chance(2) // something in between may answer them
	s.trace("it is that of Locker %d, to client and server %v, keepalives %v", h.locker, d, keepalives)
	return func() {
		time.Sleep(min(long, s.lease))
		if long > s.lease && keepalives {
			h.timeOut()
		}
		time.Sleep(max(0, long-s.lease))
		h.heal(d)
	}
}

// direction chooses what is silent.
func (s *simulation) direction() direction {
	n := s.random.IntN(3)
	return direction{n != 1, n != 2}
}

// forEver reports whether a fault that may last that long lasts until all callers have finished.
func (s *simulation) forEver(long time.Duration) bool { return long > s.lease }

// onLink is a fault of one session, if there is one.
func onLink(begin func(*simulation, *link, time.Duration) func()) func(*simulation, time.Duration) func() {
	return func(s *simulation, long time.Duration) func() {
		end := func() {}
		if open := s.network.open(); len(open) > 0 {
			l := open[s.random.IntN(len(open))]
			s.trace("it is process %d of Locker %d", l.process.Load().pid, l.host.locker)
			if ends := begin(s, l, long); ends != nil {
				end = ends
			}
		}
		return end
	}
}

func (s *simulation) acceptAfter(long time.Duration) func() {
	return func() {
		time.Sleep(long)
		s.server.set(func() { s.server.refuses = false })
	}
}
