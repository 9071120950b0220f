package monitor

import "time"

// Cycle is a deadlock in the making: sessions of which each waits for the next, and the last for the first.
type Cycle struct {
	// Certain says that each session itself waits for the next: none of them will go on by itself, and PostgreSQL ends
	// one of the waits after deadlock_timeout. Otherwise the cycle goes through several sessions of a process that uses
	// pglock, which PostgreSQL takes for unrelated. It is a deadlock then if the same task of that process holds the one
	// lock and waits for the other, which only the process knows. If it is, nobody ends it; if not, it passes.
	Certain bool `json:"certain"`
	// Since is when the last of the waits began: the cycle is no older. It is nil when the time of a wait is not known.
	Since *time.Time `json:"since"`
	// Steps are the waits, beginning with the session that has the smallest process ID.
	Steps []Step `json:"steps"`
}

// Step is a wait that is part of a [Cycle].
type Step struct {
	// PID is who waits, and Process its process ([Session.Process]).
	PID     int32  `json:"pid"`
	Process string `json:"process"`
	// Key and Database are the lock that it waits for, as in [Lock].
	Key      string `json:"key"`
	Database string `json:"database"`
	// BlockedBy is the session in the way: the one that waits in the next step, or another one of the same process.
	BlockedBy int32 `json:"blocked_by"`
	// Kind says why it is in the way.
	Kind BlockKind `json:"kind"`
}
