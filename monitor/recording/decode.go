package recording

import (
	"bytes"
	"cmp"
	"compress/flate"
	"io"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// decoder keeps the state that the frames since the last keyframe describe.
type decoder struct {
	keyed    bool
	meta     monitor.Snapshot
	top      []monitor.SessionLoad
	texts    []string
	textSize int
	sessions []*monitor.Session // nil in a free slot
	locks    []*lockRow

	participants, edges int // in all rows

	inflate io.ReadCloser
	body    bytes.Buffer
}

// apply reads a snapshot frame.
func (d *decoder) apply(f raw) (Info, error) {
	info, err := readInfo(f.kind, f.payload)
	if err != nil {
		return info, err
	}
	if f.kind == TypeKey {
		inflate := d.inflate
		*d = decoder{keyed: true, inflate: inflate}
	} else if !d.keyed {
		return info, corrupt("a change without a keyframe at offset %d", f.offset)
	}
	if err := d.inflated(f.payload[infoSize:]); err != nil {
		d.keyed = false
		return info, err
	}
	p := &parser{rest: d.body.Bytes(), base: info.At.UnixMicro()}
	d.read(p, f.kind == TypeKey)
	if p.err == nil && len(p.rest) > 0 {
		p.fail("%d bytes too many", len(p.rest))
	}
	if p.err != nil {
		d.keyed = false
	}
	return info, p.err
}

func (d *decoder) inflated(compressed []byte) error {
	d.body.Reset()
	if d.inflate == nil {
		d.inflate = flate.NewReader(bytes.NewReader(compressed))
	} else if err := d.inflate.(flate.Resetter).Reset(bytes.NewReader(compressed), nil); err != nil {
		return err
	}
	n, err := d.body.ReadFrom(io.LimitReader(d.inflate, maxBody+1))
	switch {
	case err != nil:
		return corrupt("a body that cannot be inflated: %v", err)
	case n > maxBody:
		return corrupt("a body of more than %d bytes", maxBody)
	}
	return nil
}

func (d *decoder) read(p *parser, whole bool) {
	used, advisory := p.int(), p.int()
	if p.uint() != 0 {
		meta := monitor.Snapshot{}
		p.json(&meta)
		d.meta = meta
	}
	d.meta.Capacity.Used, d.meta.Capacity.Advisory = used, advisory
	if whole {
		d.top = nil
		p.json(&d.top)
	}
	for _, slot := range p.slotList(len(d.sessions)) {
		d.sessions[slot] = nil
	}
	d.readSessions(p)
	for _, slot := range p.slotList(len(d.locks)) {
		d.drop(slot)
	}
	d.readLocks(p)
}

// slotFor extends values for a slot, which is at most one beyond the last.
func slotFor[V any](p *parser, values []*V, slot uint64, most int) ([]*V, bool) {
	switch {
	case slot > uint64(len(values)) || slot >= uint64(most):
		p.fail("slot %d of %d", slot, len(values))
		return values, false
	case slot == uint64(len(values)):
		return append(values, nil), true
	}
	return values, true
}

func (d *decoder) readSessions(p *parser) {
	slot := uint64(0)
	for range p.count() {
		slot += p.uint()
		mask := p.uint()
		var ok bool
		if d.sessions, ok = slotFor(p, d.sessions, slot, maxSessions); !ok || p.err != nil {
			return
		}
		session := monitor.Session{}
		switch old := d.sessions[slot]; {
		case mask&sessionSelf != 0:
			p.json(&session)
		case old == nil:
			p.fail("a change of session %d, which there is not", slot)
			return
		default:
			session = *old
		}
		d.readSession(p, &session, mask)
		d.sessions[slot] = &session
	}
}

func (d *decoder) readSession(p *parser, s *monitor.Session, mask uint64) {
	if mask&sessionState != 0 {
		s.State = d.text(p)
	}
	if mask&sessionStateSince != 0 {
		s.StateSince = p.time()
	}
	if mask&sessionQuery != 0 {
		s.Query = d.text(p)
	}
	if mask&sessionTransaction != 0 {
		s.TransactionSince = p.time()
	}
	if mask&sessionEvent != 0 {
		s.WaitEventType, s.WaitEvent = d.text(p), d.text(p)
	}
}

func (d *decoder) text(p *parser) string {
	n := p.uint()
	if n != 0 {
		if n > uint64(len(d.texts)) {
			p.fail("text %d of %d", n, len(d.texts))
			return ""
		}
		return d.texts[n-1]
	}
	text := p.text()
	if d.textSize += len(text); d.textSize > maxText || len(d.texts) >= maxStrings {
		p.fail("too many texts")
		return ""
	}
	d.texts = append(d.texts, text)
	return text
}

func (d *decoder) readLocks(p *parser) {
	slot := uint64(0)
	for range p.count() {
		slot += p.uint()
		mask := p.uint()
		var ok bool
		if d.locks, ok = slotFor(p, d.locks, slot, maxLocks); !ok || p.err != nil {
			return
		}
		row := lockRow{}
		if old := d.locks[slot]; old != nil {
			row = *old
		} else if mask&lockSelf == 0 {
			p.fail("a change of lock %d, which there is not", slot)
			return
		}
		if mask&lockSelf != 0 {
			row.lock = d.readLock(p)
		}
		if mask&lockHolders != 0 {
			row.holders = d.readHolders(p)
		}
		if mask&lockWaiters != 0 {
			row.waiters = d.readWaiters(p)
		}
		d.drop(slot)
		if d.keep(p, slot, &row); p.err != nil {
			return
		}
	}
}

func (d *decoder) drop(slot uint64) {
	if row := d.locks[slot]; row != nil {
		people, edges := row.size()
		d.participants, d.edges = d.participants-people, d.edges-edges
		d.locks[slot] = nil
	}
}

func (d *decoder) keep(p *parser, slot uint64, row *lockRow) {
	people, edges := row.size()
	d.participants, d.edges = d.participants+people, d.edges+edges
	d.locks[slot] = row
	if d.participants > maxParticipants || d.edges > maxDerived {
		p.fail("more than %d holders and waiters, or %d blockers", maxParticipants, maxDerived)
	}
}

func (r *lockRow) size() (people, edges int) {
	for i := range r.waiters {
		edges += len(r.waiters[i].blockers)
	}
	return len(r.holders) + len(r.waiters), edges
}

func (d *decoder) readLock(p *parser) monitor.Lock {
	how := int(p.uint())
	if how == lockJSON {
		var lock monitor.Lock
		p.json(&lock)
		return lock
	}
	var names []string
	var number int64
	if how == lockName {
		names = []string{p.text()}
	} else {
		number = p.int()
	}
	oid := uint32(p.uint())
	lock, err := makeLock(how, names, number, oid, d.text(p))
	if err != nil && p.err == nil {
		p.err = err
	}
	return lock
}

func (d *decoder) readHolders(p *parser) []holderRow {
	n := p.limited(maxParticipants)
	rows := make([]holderRow, 0, min(n, 1024))
	for range n {
		rows = append(rows, holderRow{monitor.Mode(d.text(p)), p.uint()})
	}
	return rows
}

func (d *decoder) readWaiters(p *parser) []waiterRow {
	n := p.limited(maxParticipants)
	rows := make([]waiterRow, 0, min(n, 1024))
	for range n {
		flags := p.uint()
		w := waiterRow{estimated: flags&1 != 0, derived: flags&2 != 0, mode: monitor.Mode(d.text(p)), session: p.uint()}
		w.since = micros(p.time())
		if !w.derived {
			w.blockers = d.readBlockers(p)
		}
		rows = append(rows, w)
	}
	return rows
}

func (d *decoder) readBlockers(p *parser) []monitor.Blocker {
	n := p.limited(maxDerived)
	blockers := make([]monitor.Blocker, 0, min(n, 1024))
	for range n {
		blockers = append(blockers, monitor.Blocker{PID: int32(p.int()), GID: d.text(p),
			Kind: monitor.BlockKind(d.text(p))})
	}
	return blockers
}

// snapshot returns the snapshot that the frames describe.
func (d *decoder) snapshot(info Info) (*monitor.Snapshot, error) {
	s := d.meta
	s.TakenAt = info.At
	s.Capacity.Top = slices.Clone(d.top)
	s.Locks = []monitor.Lock{}
	room := &assembly{sessions: d.sessions}
	for _, row := range d.locks {
		if row == nil {
			continue
		}
		lock, err := room.lock(row)
		if err != nil {
			return nil, err
		}
		s.Locks = append(s.Locks, lock)
	}
	slices.SortFunc(s.Locks, func(a, b monitor.Lock) int {
		return cmp.Or(
			trueFirst(a.Database == s.Database, b.Database == s.Database), cmp.Compare(a.Database, b.Database),
			cmp.Compare(a.DatabaseOID, b.DatabaseOID), a.ID().Compare(b.ID()))
	})
	return &s, nil
}

// trueFirst sorts true before false.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// assembly makes a snapshot, and bounds its size.
type assembly struct {
	sessions            []*monitor.Session
	participants, edges int
}

func (a *assembly) session(slot uint64) (monitor.Session, error) {
	if a.participants++; a.participants > maxParticipants {
		return monitor.Session{}, corrupt("more than %d holders and waiters", maxParticipants)
	}
	if slot >= uint64(len(a.sessions)) || a.sessions[slot] == nil {
		return monitor.Session{}, corrupt("a lock of session %d, which there is not", slot)
	}
	return *a.sessions[slot], nil
}

func (a *assembly) lock(row *lockRow) (monitor.Lock, error) {
	lock := row.lock
	lock.Holders = make([]monitor.Holder, 0, len(row.holders))
	lock.Waiters = make([]monitor.Waiter, 0, len(row.waiters))
	for _, h := range row.holders {
		session, err := a.session(h.session)
		if err != nil {
			return lock, err
		}
		lock.Holders = append(lock.Holders, monitor.Holder{Mode: h.mode, Session: session})
	}
	for _, w := range row.waiters {
		session, err := a.session(w.session)
		if err != nil {
			return lock, err
		}
		waiter := monitor.Waiter{Mode: w.mode, WaitingEstimated: w.estimated, Session: session, BlockedBy: w.blockers}
		if w.since != 0 {
			since := time.UnixMicro(w.since).UTC()
			waiter.WaitingSince = &since
		}
		lock.Waiters = append(lock.Waiters, waiter)
	}
	return lock, a.derive(row, &lock)
}

func (a *assembly) derive(row *lockRow, lock *monitor.Lock) error {
	for i := range row.waiters {
		if a.edges += len(row.waiters[i].blockers); row.waiters[i].derived {
			a.edges += len(lock.Holders) + i
		}
		if a.edges > 2*maxDerived {
			return corrupt("more than %d blockers", 2*maxDerived)
		}
		if row.waiters[i].derived {
			derived, _ := derivedBlockers(lock.Holders, lock.Waiters, i) // the writer has checked that they are right
			if derived == nil {
				derived = []monitor.Blocker{}
			}
			lock.Waiters[i].BlockedBy = derived
		}
	}
	return nil
}
