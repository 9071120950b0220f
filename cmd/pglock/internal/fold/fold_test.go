package fold_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/fold"
	"github.com/pglock-toolkit/pglock/monitor"
)

// drawn returns the branches of a tree, a line each: "  2..9 (8)" is a fold of eight sessions one level deep.
func drawn(t *monitor.Tree) (lines []string) {
	for depth, b := range fold.Branches(t) {
		line := fmt.Sprintf("%s%d", strings.Repeat("  ", depth), b.First().PID)
		if b.Folded() {
			line += fmt.Sprintf("..%d (%d)", b.Last().PID, len(b.Nodes))
		}
		lines = append(lines, line)
	}
	return lines
}

// queue returns a snapshot of sessions that wait for one key.
func queue(waiters int32) *monitor.Snapshot {
	lock := monitor.Lock{Key: "@1", Holders: []monitor.Holder{{Session: monitor.Session{PID: 1}}}}
	for pid := int32(2); pid < waiters+2; pid++ {
		since := time.Unix(int64(pid), 0)
		lock.Waiters = append(lock.Waiters, monitor.Waiter{Session: monitor.Session{PID: pid}, WaitingSince: &since,
			BlockedBy: []monitor.Blocker{{PID: 1, Kind: "hard"}}})
	}
	return &monitor.Snapshot{TakenAt: time.Unix(1000, 0), Locks: []monitor.Lock{lock}}
}

func TestFoldOfALongQueue(t *testing.T) {
	t.Parallel()
	s := queue(200)
	requireOrder(t, drawn(s.Tree()), "1", "  2..201 (200)")
	tree := s.Tree()
	folded := fold.Of(tree.Roots[0].Children)[0]
	if shortest, longest, ok := folded.Waited(s.TakenAt); !ok || shortest != 799*time.Second || longest != 998*time.Second {
		t.Errorf("the waits are %v to %v, %v", shortest, longest, ok)
	}
	requireOrder(t, drawn(queue(fold.Above).Tree()), "1", "  2", "  3", "  4", "  5", "  6")
}

func requireOrder(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("drawn is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A waiter that blocks others stays visible, and so does one in another mode. The fold stands where its first waiter stood.
func TestFoldKeepsWhatDiffers(t *testing.T) {
	t.Parallel()
	s := queue(10)
	lock := &s.Locks[0]
	lock.Waiters[3].Mode = "shared"
	s.OtherWaits = []monitor.OtherWait{{Lock: monitor.OtherLock{Type: "relation", Name: "t"}, Waiter: monitor.Waiter{
		Session: monitor.Session{PID: 99}, BlockedBy: []monitor.Blocker{{PID: 7, Kind: "hard"}}}}}
	requireOrder(t, drawn(s.Tree()), "1", "  2..11 (8)", "  5", "  7", "    99")
}

// If it is unknown which sessions block the waiters, they are roots, and fold too.
func TestFoldOfWaitersWithoutBlockers(t *testing.T) {
	t.Parallel()
	s := queue(30)
	for i := range s.Locks[0].Waiters {
		s.Locks[0].Waiters[i].BlockedBy = nil
	}
	requireOrder(t, drawn(s.Tree()), "2..31 (30)")
}

// Whatever the tree, its branches have each node once, at its depth, and only what is alike is folded.
func TestFoldLosesNothing(t *testing.T) {
	t.Parallel()
	folds := 0
	for seed := range uint64(300) {
		s := randomPileUp(rand.New(rand.NewPCG(seed, 1)))
		tree := s.Tree()
		depths := map[monitor.SessionID]int{}
		for depth, n := range tree.All() {
			depths[n.ID()] = depth
		}
		for depth, b := range fold.Branches(tree) {
			for _, n := range b.Nodes {
				if at, left := depths[n.ID()]; !left || at != depth {
					t.Fatalf("seed %d: %v is drawn at depth %d, want %d; %v", seed, n.ID(), depth, at, left)
				}
				delete(depths, n.ID())
				first := b.First()
				if b.Folded() && (len(n.Children) > 0 || n.Parent() != first.Parent() || n.Wait.Label() != first.Wait.Label() || n.Wait.Mode != first.Wait.Mode || n.Certain) {
					t.Fatalf("seed %d: %v is folded with %v", seed, n.ID(), first.ID())
				}
			}
			if b.Folded() {
				folds++
				if len(b.Nodes) <= fold.Above {
					t.Fatalf("seed %d: a fold of %d", seed, len(b.Nodes))
				}
			}
		}
		if len(depths) > 0 {
			t.Fatalf("seed %d: %v are not drawn", seed, depths)
		}
	}
	if folds == 0 {
		t.Error("nothing was folded")
	}
}

// randomPileUp returns a snapshot in which many sessions wait for few locks.
func randomPileUp(r *rand.Rand) *monitor.Snapshot {
	s := &monitor.Snapshot{TakenAt: time.Unix(1000, 0)}
	for number := range int64(3) {
		lock := monitor.Lock{Key: fmt.Sprintf("@%d", number), Number: number, Objsubid: 1}
		for range r.IntN(60) {
			since := time.Unix(r.Int64N(900), 0)
			lock.Waiters = append(lock.Waiters, monitor.Waiter{WaitingSince: &since, Mode: []string{"shared", "exclusive"}[r.IntN(2)],
				Session:   monitor.Session{PID: 1 + r.Int32N(200)},
				BlockedBy: []monitor.Blocker{{PID: 1 + r.Int32N(3), Kind: "hard"}}})
		}
		s.Locks = append(s.Locks, lock)
	}
	return s
}
