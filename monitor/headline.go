package monitor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/internal/ages"
	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/internal/lockmode"
)

// Headline is what matters most in a snapshot: the session or process at the root of the waits, or that nothing waits. All
// faces of pglock monitor, and its checks and events, show the same one. Waits that belong to normal work ([Wait.Expected])
// do not count.
type Headline struct {
	// Root is at the root: the first of the snapshot's trees with others behind it, which is part of a deadlock if there is
	// a certain one, and otherwise has the most behind it. It is nil if nothing waits, and if it is unknown which sessions
	// block the waiters. It belongs to a tree without expected waits; [Tree.Node] finds the session in another tree of the
	// snapshot by its ID.
	Root *Node
	// Lock and Mode are the lock that most of those below it wait for, as [Wait.Label] writes it, and how the root holds it.
	// They are empty if it holds none of these.
	Lock string
	Mode string
	// Since is since when the root is as it is: since its state changed, the transaction was prepared or, for a process, since
	// it holds Lock. It is nil if that is unknown.
	Since *time.Time
	// Frees is how many sessions or processes wait for the root, directly or through others, and for no other root: they can
	// continue, one after another, when it has ended. If another root holds the same lock shared, it can be 0.
	Frees int
	// Longest is the longest wait of these.
	Longest time.Duration
	// Cycle is the deadlock that the root is part of, if it is a certain one.
	Cycle *Cycle
	// Ref names the root for pglock terminate, as [Target.Ref]. It is empty for a prepared transaction, which
	// [Session.RollbackSQL] ends, and if the root is not known well enough.
	Ref string
	// More is how many further roots have sessions or processes behind them.
	More int

	// Waiting is how many waits there are, and Expected how many belong to normal work and are not among these. Waits without an
	// advisory lock that are only counted (Elsewhere) are not among them, nor waits for locks in rows if these could not be
	// read ([Snapshot.RowLocksMissing]).
	Waiting, Expected int
	// Held is how many advisory locks and locks in rows are held.
	Held int
	// Elsewhere is [Snapshot.WaitsElsewhere].
	Elsewhere int

	at       time.Time
	database string // the connected one, which the text does not name
	oldest   Wait   // the longest wait, if there is no root
	filtered bool   // it is of some locks
	hidden   int    // waits that the headline is not about, if it is of some locks, and nothing waits for these
	unread   bool   // the locks in rows could not be read
}

// Headline returns the headline of the snapshot.
func (s *Snapshot) Headline() Headline {
	bare, expected := s.unexpected()
	h := Headline{Expected: expected, Held: s.held(), Elsewhere: s.WaitsElsewhere, at: s.TakenAt, database: s.Database,
		unread: s.rowsUnread()}
	return h.of(s, bare.Tree())
}

// HeadlineOf returns the headline of the waits that concern some of the locks: for them, and for locks that their holders and
// waiters hold or wait for, and of some waits for locks of other types ([Tree.Of]). What is said of the root, such as Frees, is
// still about the whole snapshot. Elsewhere is 0. showsOther may be nil, for none.
func (s *Snapshot) HeadlineOf(shows func(*Lock) bool, showsOther func(*OtherWait) bool) Headline {
	h := Headline{at: s.TakenAt, database: s.Database, filtered: true, unread: s.rowsUnread()}
	for i := range s.Locks {
		if lock := &s.Locks[i]; shows(lock) {
			h.Expected += lock.expectedWaits()
			if lock.held(s.TakenAt) {
				h.Held++
			}
		}
	}
	bare, _ := s.unexpected()
	h = h.of(s, bare.Tree().Of(shows, showsOther))
	if h.Waiting == 0 {
		h.hidden = s.Headline().Waiting
	}
	return h
}

// of fills in the headline of a tree that has no expected waits.
func (h Headline) of(s *Snapshot, t *Tree) Headline {
	for wait := range t.snapshot.Waits() {
		if t.Node(wait.ID()) == nil {
			continue // it is in another part of the tree
		}
		if h.Waiting++; h.oldest.Waiter == nil || compareSince(wait.WaitingSince, h.oldest.WaitingSince) < 0 {
			h.oldest = wait
		}
	}
	for _, root := range t.Roots {
		switch {
		case root.Behind == 0:
		case h.Root == nil:
			h.Root, h.Frees = root, t.graph.frees(root.number)
			h.describe(s)
		default:
			h.More++
		}
	}
	return h
}

// unexpected returns the snapshot without the waits that belong to normal work, and their number. It is the same snapshot if
// there are none: most have none, and copying thousands of locks takes longer than looking at them.
func (s *Snapshot) unexpected() (bare *Snapshot, expected int) {
	without := *s
	for i := range s.Locks {
		if n := s.Locks[i].expectedWaits(); n > 0 {
			if expected == 0 {
				without.Locks = slices.Clone(s.Locks)
			}
			expected += n
			without.Locks[i].Waiters = nil
		}
	}
	if expected == 0 {
		return s, 0
	}
	return &without, expected
}

// expectedWaits returns how many waits for the lock belong to normal work.
func (l *Lock) expectedWaits() int {
	if len(l.Waiters) == 0 || !l.Expected() {
		return 0
	}
	return len(l.Waiters)
}

// held reports whether the lock has a holder, apart from processes whose leases are over.
func (l *Lock) held(at time.Time) bool {
	return slices.ContainsFunc(l.Holders, func(h Holder) bool { return !h.Lease.over(at) })
}

func (s *Snapshot) held() (held int) {
	for i := range s.Locks {
		if s.Locks[i].held(s.TakenAt) {
			held++
		}
	}
	return held
}

// describe fills in what there is to know of the root.
func (h *Headline) describe(s *Snapshot) {
	root := h.Root
	h.Longest = max(root.Longest, 0)
	h.Lock, h.Mode, _ = root.Held()
	switch {
	case root.Lease != nil:
		h.Since, h.Ref = heldSince(root), root.Lease.Holder
	case root.Prepared():
		h.Since = root.PreparedAt
	default:
		h.Since = root.StateSince
		if target, err := s.Target(root.ID()); err == nil {
			h.Ref = target.Ref
		}
	}
	for i := range s.Cycles {
		cycle := &s.Cycles[i]
		if h.Cycle == nil && cycle.Certain && slices.ContainsFunc(cycle.Steps, func(step Step) bool { return step.PID == root.PID }) {
			h.Cycle = cycle
		}
	}
}

// heldSince returns since when a process holds the lock in a row that others wait for.
func heldSince(root *Node) (since *time.Time) {
	for _, child := range root.Children {
		for i := range child.Wait.Lock.Holders {
			holder := &child.Wait.Lock.Holders[i]
			if holder.ID() == root.ID() && (since == nil || holder.SeenSince.Before(*since)) {
				since = holder.SeenSince
			}
		}
	}
	return since
}

// rowsUnread reports whether there may be locks in rows that could not be read. If only some were left out, there are others.
func (s *Snapshot) rowsUnread() bool {
	return s.RowLocksMissing != "" && !slices.ContainsFunc(s.Locks, func(l Lock) bool { return l.InRow })
}

// String returns the headline as one sentence, of which the first part says who is at the root. It has names as they are:
// escape control characters before you write it to a terminal. Some examples:
//
//	4711 flyway, idle in transaction for 4m02s, holds relation orders (AccExcl): frees 12, longest wait 3m58s
//	billing (process 77 on web-1) holds invoice:42 (excl) in a row for 12s: frees 3, longest wait 11s; 1 more root
//	Nothing waits. 13 locks held.
//	Nothing waits for an advisory lock; locks in rows could not be read. No advisory locks held.
func (h Headline) String() string {
	switch {
	case h.Root == nil && h.Waiting == 0:
		return h.quietText()
	case h.Root == nil:
		return fmt.Sprintf("%s%s for %s; it is unknown which sessions block them%s", plural(h.Waiting, "wait", "waits"),
			h.longestText(h.oldest.waited(h.at)), h.oldest.Label(), h.elsewhereText())
	}
	text := h.rootText()
	if h.Cycle != nil {
		text = h.cycleText()
	}
	text += fmt.Sprintf(": frees %d%s", h.Frees, h.longestText(h.Longest))
	if h.More > 0 {
		text += "; " + plural(h.More, "more root", "more roots")
	}
	return text + h.elsewhereText()
}

func (h Headline) longestText(longest time.Duration) string {
	if longest == 0 {
		return "" // it has only just begun, or its time is unknown
	}
	return ", longest wait " + ages.Text(longest)
}

func (h Headline) elsewhereText() string {
	if h.Elsewhere == 0 {
		return ""
	}
	where := ""
	if h.filtered {
		where = " on the whole server"
	}
	return fmt.Sprintf("; %s without an advisory lock%s (--all)", plural(h.Elsewhere, "session waits", "sessions wait"), where)
}

func (h Headline) quietText() string {
	text := "Nothing waits"
	if h.Expected > 0 {
		text = fmt.Sprintf("Nothing waits but %d for elections, permits and runs of jobs", h.Expected)
	}
	if h.hidden > 0 {
		text = fmt.Sprintf("Of what the filters show, n%s (%s not shown)", text[1:], plural(h.hidden, "wait is", "waits are"))
	}
	if h.Elsewhere > 0 || h.unread {
		text += " for an advisory lock" + h.elsewhereText()
	}
	kind := ""
	if h.unread {
		text, kind = text+"; locks in rows could not be read", "advisory "
	}
	if h.Held == 0 {
		return fmt.Sprintf("%s. No %slocks held.", text, kind)
	}
	return fmt.Sprintf("%s. %s held.", text, plural(h.Held, kind+"lock", kind+"locks"))
}

// rootText says who is at the root, what it does, and what it holds.
func (h Headline) rootText() string {
	if h.Root.Lease != nil {
		text := h.Root.Who()
		if h.Lock != "" {
			text += fmt.Sprintf(" holds %s (%s) in a row", strings.TrimSuffix(h.Lock, inRow), lockmode.Short(h.Mode))
		}
		return text + h.forText(" for ", "")
	}
	parts := []string{h.Root.Who()}
	switch {
	case h.Root.Prepared():
		parts[0] += h.forText(", ", " old")
	case h.Root.State != "":
		parts = append(parts, h.Root.State+h.forText(" for ", ""))
	}
	if h.Lock != "" {
		parts = append(parts, "holds "+h.heldText())
	}
	text := strings.Join(parts, ", ")
	where := " in database " + h.Root.Database
	if h.Root.Database == "" || h.Root.Database == h.database || strings.HasSuffix(h.Lock, where) {
		return text
	}
	return text + where
}

func (h Headline) forText(before, after string) string {
	if h.Since == nil {
		return ""
	}
	return before + ages.Text(h.at.Sub(*h.Since)) + after
}

func (h Headline) heldText() string {
	if h.Mode == "" {
		return h.Lock
	}
	return fmt.Sprintf("%s (%s)", h.Lock, lockmode.Short(h.Mode))
}

func (h Headline) cycleText() string {
	var steps []string
	for _, step := range h.Cycle.Steps {
		steps = append(steps, fmt.Sprintf("%d waits for %s behind %d", step.PID, step.Key, step.BlockedBy))
	}
	text := "deadlock"
	if h.Cycle.Since != nil {
		text += " for " + ages.Text(h.at.Sub(*h.Cycle.Since))
	}
	return fmt.Sprintf("%s: %s; to end %s", text, strings.Join(steps, ", "), h.Root.Who())
}

// Statement returns what the root runs or ran last, on one line without comments before it. It is empty if that is unknown,
// and for a session of a Locker, which runs pglock's own statements.
func (h Headline) Statement() string {
	if h.Root == nil || h.Root.Session.Process != "" {
		return ""
	}
	query := strings.TrimSpace(h.Root.Query)
	for strings.HasPrefix(query, "--") {
		_, query, _ = strings.Cut(query, "\n")
		query = strings.TrimSpace(query)
	}
	return strings.Join(strings.Fields(query), " ")
}

// Who names a node in a few words: process ID and application of a session, without the mark of a pglock process; a
// prepared transaction; the application, process ID and host of a process.
func (n *Node) Who() string {
	application, _ := appname.Split(n.Application)
	switch {
	case n.Lease != nil:
		text := cmp.Or(application, n.Lease.Holder)
		if n.Lease.Host != "" {
			text += fmt.Sprintf(" (process %d on %s)", n.Lease.PID, n.Lease.Host)
		}
		return text
	case n.Prepared() && n.GID == "":
		return "a prepared transaction"
	case n.Prepared():
		return fmt.Sprintf("prepared transaction %q", n.GID)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", n.PID, application))
}
