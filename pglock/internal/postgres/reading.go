package postgres

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"slices"
	"time"
)

// Somebody reads from a main session all the time, or will soon, so that its end is seen at once: a goroutine of its
// own, the reader. But to have an answer read by one goroutine and used by another costs a change of goroutines, which is
// much beside a server that is near. So when nothing is on its way the reader rests, and a caller who then sends a
// statement reads its answer himself: he leads. When he has it and others wait for theirs, one of them
// leads. A timer sees to it that nobody rests or leads for long: the reader takes over from a caller whose answer does
// not come, who then can follow his context, and from nobody.
type reading int

const (
	watched reading = iota // by the reader
	led                    // by a caller
	resting                // nobody reads
)

// watch is the reader.
func (s *mainSession) watch() {
	defer close(s.readerDone)
	for {
		complete, err := s.receive()
		if err != nil {
			s.fail(err)
			return
		}
		if complete && s.rest() {
			<-s.resume
		}
	}
}

// receive reads a message, and reports whether it completed an answer, which it has settled then. It is for who reads.
func (s *mainSession) receive() (complete bool, err error) {
	message, err := s.wire.front.Receive()
	if err != nil || !s.answer.take(message) {
		return false, err
	}
	s.answeredStatement()
	s.answer.reset()
	return true, nil
}

// fail ends a session that cannot be read from.
func (s *mainSession) fail(err error) {
	if s.answer.err != nil { // what the server said before it closed the connection
		err = s.answer.err
	}
	s.end(s.reasonNow(), err)
}

// rest lets the reader rest if nothing is on its way. When the server is far there is nothing to be won by it.
func (s *mainSession) rest() bool {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	if len(s.inFlight) > 0 || s.cause != nil || !s.interruptible || s.isFar() {
		return false
	}
	s.setResting()
	return true
}

// setResting has nobody read, for a while. It runs under mu.
func (s *mainSession) setResting() {
	s.calm()
	s.reading = resting
	if !s.overseen {
		s.overseen = true
		s.overseer.Reset(oversight)
	}
}

// expectAnswer makes sure that somebody reads: the caller who asked a, if the statement just put in line is for him, who is
// then told to lead, or the reader. It runs under mu.
func (s *mainSession) expectAnswer(a *ask) (lead bool) {
	if s.reading != resting {
		return false
	}
	if len(s.inFlight) == 1 && slices.Contains(s.inFlight[0].asks, a) {
		s.reading = led
		return true
	}
	s.wakeReader()
	return false
}

// wakeReader has the reader read, who does not. It runs under mu.
func (s *mainSession) wakeReader() {
	s.calm()
	s.reading = watched
	s.resume <- struct{}{}
}

// lead reads until a is answered, and reports false when it need not or cannot go on: the reader has taken over, or a has
// come to another session meanwhile. If it is that one which is to be led then, it does so.
func (s *mainSession) lead(a *ask) (answered bool) {
	for s.sendQueued() {
		if err := s.readAnswer(); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				s.fail(err)
			}
			s.stepDown()
			return false
		}
		select {
		case other := <-a.caller.wake:
			switch other {
			case nil:
				s.handOver()
				return true
			case overdue: // who leads cannot look at his context; patrol comes again
				s.stepDown()
				s.lanes.overlook(a)
				return false
			}
			s.stepDown()
			s = other
		default:
		}
	}
	return false
}

// sendQueued sends what was left to who leads now, and reports whether there is an answer to read. If not, the lead is
// over.
func (s *mainSession) sendQueued() bool {
	l := s.lanes
	l.mu.Lock()
	s.load()
	more := len(s.outbox) > 0
	expected := len(s.inFlight) > 0 && s.cause == nil
	switch {
	case expected:
	case s.cause != nil:
		s.wakeReader()
	default:
		s.setResting()
	}
	l.mu.Unlock()
	if expected && more {
		s.flush()
	}
	return expected
}

// readAnswer reads until an answer is complete.
func (s *mainSession) readAnswer() error {
	for {
		complete, err := s.receive()
		if err != nil || complete {
			return err
		}
	}
}

// handOver ends a caller's lead.
func (s *mainSession) handOver() {
	l := s.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	switch next := s.someoneWaiting(); {
	case next != nil:
		s.calm()
		next.caller.wake <- s
	case len(s.inFlight) > 0 || s.cause != nil:
		s.wakeReader()
	default:
		s.setResting()
		s.sendLater()
	}
}

// sendLater has sent what was left to the caller who leads next, when there is none. It runs under mu.
func (s *mainSession) sendLater() {
	if s.ready() && s.queued() > 0 {
		go s.proceed()
	}
}

// leavesSending reports whether what is queued is to be sent by the caller who leads next. If it is little, those who
// have just been answered are likely to come back before he does, and one statement then serves them all. It runs under
// mu.
func (s *mainSession) leavesSending() bool {
	n := s.queued()
	return s.reading == led && len(s.inFlight) == 0 && 0 < n && n <= fewAsks && s.someoneWaiting() != nil
}

// someoneWaiting returns an ask of the statement that is answered next, or is sent next, whose caller waits; nil when
// there is none. It runs under mu.
func (s *mainSession) someoneWaiting() *ask {
	if len(s.inFlight) > 0 {
		return anyWaiting(s.inFlight[0].asks)
	}
	if a := anyWaiting(s.releases); a != nil || !s.tries() {
		return a
	}
	return anyWaiting(s.lanes.pending)
}

func anyWaiting(asks []*ask) *ask {
	for _, a := range asks {
		if (a.state == sent || a.state == pending) && a.caller != nil && len(a.caller.wake) == 0 {
			return a
		}
	}
	return nil
}

// stepDown gives the lead to the reader, who does not send.
func (s *mainSession) stepDown() {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	s.wakeReader()
	s.sendLater()
}

// calm undoes an interruption. It runs under mu.
func (s *mainSession) calm() {
	if s.interrupted {
		s.interrupted = false
		_ = s.socket.SetReadDeadline(time.Time{}) // fails only on a closed socket
	}
}

// decline is for a caller who leaves, and may have been told to lead just then. It runs under mu.
func (a *ask) decline() {
	for {
		select {
		case s := <-a.caller.wake:
			if s != nil {
				s.wakeReader()
				go s.proceed()
			}
		default:
			return
		}
	}
}

// oversee is what the timer runs while nobody or a caller reads.
func (s *mainSession) oversee() {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	s.overseen = false
	switch {
	case s.cause != nil || s.reading == watched:
		return
	case s.answers != s.answersSeen:
		s.answersSeen = s.answers
	case s.reading == resting:
		s.wakeReader()
		return
	case !s.interrupted:
		s.interrupted = true
		_ = s.socket.SetReadDeadline(longAgo) // fails only on a closed socket
		go s.proceed()
	}
	s.overseen = true
	s.overseer.Reset(oversight)
}

// interruptible reports whether a read from the connection can be interrupted and taken up again. Of a caller's own
// DialFunc's connections that is not known.
func interruptible(conn net.Conn) bool {
	switch conn := conn.(type) {
	case *tls.Conn:
		return interruptible(conn.NetConn())
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

var longAgo = time.Unix(1, 0)

// oversight is how long nobody reads at most, and how long a caller does without an answer to anybody; or twice that.
const oversight = 2 * time.Millisecond
