package tui

import (
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

func process(holder, application, host string, pid int32) monitor.Session {
	expires := noon.Add(12 * time.Second)
	return monitor.Session{User: "app", Database: "shop", Application: application, Since: ago(time.Hour), Hidden: []string{},
		Lease: &monitor.Lease{Holder: holder, Host: host, PID: pid, Expires: &expires}}
}

func rowLock(name string, holder monitor.Session, generation int64) monitor.Lock {
	key := pglock.NewKey(name)
	return monitor.Lock{InRow: true, Key: key.String(), Names: []string{name}, Kind: "lock", Space: "bigint", Objsubid: 1,
		Number: key.Int64(), Database: "shop",
		Holders: []monitor.Holder{{Mode: "exclusive", Generation: generation, SeenSince: ago(40 * time.Second), Session: holder}}}
}

const (
	billingHolder = "59652b93587a812b"
	shopHolder    = "8b4d398f5bcd5891"
)

// withRows adds locks in rows to a snapshot: a process with two, for one of which another process waits, and a process whose
// host the role may not see. Its process IDs are those of sessions.
func withRows(s *monitor.Snapshot) *monitor.Snapshot {
	billing, shop, secret := process(billingHolder, "billing", "web-1", 4711), process(shopHolder, "shop", "web-2", 4712),
		process("00112233445566aa", "nightly", "", 0)
	secret.Hidden = []string{"client"}
	contended := rowLock("invoice:42", billing, 7)
	contended.Waiters = []monitor.Waiter{{Mode: "exclusive", WaitingSince: ago(75 * time.Second), Session: shop,
		BlockedBy: []monitor.Blocker{{Holder: billingHolder, Kind: "hard"}}}}
	s.Locks = append(s.Locks, contended, rowLock("invoice:43", billing, 8), rowLock("report:7", secret, 9))
	return s
}

func emptySnapshot() *monitor.Snapshot {
	return &monitor.Snapshot{TakenAt: noon, ServerVersion: "16.4", Database: "shop", Role: "dba"}
}
