package main

import (
	"embed"
	"slices"
)

//go:embed *.pml
var models embed.FS

// configuration is a model with its sizes and faults. All its states are seen.
type configuration struct {
	Name    string
	Model   string
	Defines []string
	Fast    bool     // make test-programs searches it too
	Big     bool     // only make model without FAST=1 searches it
	Live    []string // the properties that say what happens at last; if there are none, the model says what does not happen
}

// mutation leaves out a step of the argument, or counts what docs/internals/evidence.md excludes.
type mutation struct {
	Name    string // the macro in the model
	In      string // the configuration in which a counterexample is looked for
	Without string // the step
	Breaks  string // the property; "" if other steps cover for this one
}

const (
	session  = "session.pml"
	rows     = "rows.pml"
	deadlock = "deadlock.pml"
)

var configurations = []configuration{
	{Name: "silence", Fast: true, Model: session, Defines: []string{"TXS=0", "KILLS=0"}},
	{Name: "two keys", Model: session, Defines: []string{"TXS=0", "KILLS=0", "KEYS=2", "DRIFTS=0"}},
	{Name: "terminated", Fast: true, Model: session, Defines: []string{"TXS=0", "DRIFTS=0"}},
	{Name: "clock", Fast: true, Model: session, Defines: []string{"TXS=0", "KILLS=0", "DRIFTS=0", "JUMPS=1", "TRIES=0", "CANCELS=0"}},
	{Name: "handoff", Fast: true, Model: session, Defines: []string{"CLIENTS=1", "TXS=2", "HANDOFFS=1", "TICKS=0", "DRIFTS=0"}},
	{Name: "guard", Fast: true, Model: session, Defines: []string{"TICKS=0", "DRIFTS=0", "TRIES=0", "CANCELS=0"}},
	{Name: "stranger", Fast: true, Model: session, Defines: []string{"STRANGERS=1", "TICKS=0", "DRIFTS=0", "TRIES=0", "CANCELS=0"}},
	{Name: "failover", Fast: true, Model: session, Defines: []string{"FAILOVERS=1", "KILLS=0", "TICKS=0", "DRIFTS=0", "TRIES=0", "CANCELS=0"}},
	{Name: "shared", Fast: true, Model: session, Defines: []string{"SHARES=1", "TICKS=0", "DRIFTS=0", "TRIES=0", "CANCELS=0"}},
	{Name: "guard, time passes", Model: session, Big: true, Defines: []string{"DRIFTS=0", "TRIES=0", "CANCELS=0"}},
	{Name: "2 clients, 1 key, a stranger, no time", Model: session, Big: true, Defines: []string{"STRANGERS=1", "TICKS=0", "DRIFTS=0"}},
	{Name: "2 clients, 2 keys, no time", Model: session, Big: true, Defines: []string{"KEYS=2", "TICKS=0", "DRIFTS=0"}},
	{Name: "3 clients, 1 key, time passes", Model: session, Big: true, Defines: []string{"CLIENTS=3", "LEASE=3", "TXS=0", "KILLS=0", "TRIES=0", "CANCELS=0"}},
	{Name: "3 clients, 1 key, no time", Model: session, Big: true, Defines: []string{"CLIENTS=3", "TXS=0", "TICKS=0", "DRIFTS=0"}},
	{Name: "lease", Model: rows, Big: true, Defines: []string{"TXS=0", "CALLS=1", "LOSSES=0", "PRUNES=0"}},
	{Name: "clock of rows", Fast: true, Model: rows, Defines: []string{"TXS=0", "CALLS=1", "LOSSES=0", "PRUNES=0", "TICKS=0", "DRIFTS=0", "JUMPS=1", "BACKS=1"}},
	{Name: "ended", Fast: true, Model: rows, Defines: []string{"TXS=0", "LOSSES=0", "PRUNES=0", "TICKS=0", "DRIFTS=0", "KILLS=1"}},
	{Name: "lost answer", Fast: true, Model: rows, Defines: []string{"TXS=0", "PRUNES=0", "TICKS=0", "DRIFTS=0"}},
	{Name: "guard in rows", Big: true, Model: rows, Defines: []string{"LOSSES=0", "PRUNES=0", "TICKS=0", "DRIFTS=0", "JUMPS=1", "KILLS=1"}},
	{Name: "guard in rows, no faults", Fast: true, Model: rows, Defines: []string{"LOSSES=0", "PRUNES=0", "TICKS=0", "DRIFTS=0"}},
	{Name: "pruning and crash", Big: true, Model: rows, Defines: []string{"TXS=0", "LOSSES=0", "TICKS=0", "DRIFTS=0", "JUMPS=1", "BACKS=1", "CRASHES=1"}},
	{Name: "2 processes, 1 key, time passes", Model: rows, Big: true, Defines: []string{"CALLS=1", "LOSSES=0", "PRUNES=0", "DRIFTS=0"}},
	{Name: "2 processes, 2 keys, no time", Model: rows, Big: true, Defines: []string{"KEYS=2", "CALLS=1", "PRUNES=0", "TICKS=0", "DRIFTS=0", "JUMPS=1"}},
	{Name: "waits end", Fast: true, Model: session, Defines: []string{"LIVE=1", "LEASE=2", "TXS=0", "DRIFTS=0", "CANCELS=0"}, Live: []string{"WaitEnds", "LockFreed"}},
	{Name: "contexts end", Fast: true, Model: session, Defines: []string{"LIVE=2", "LEASE=3", "SILENCES=0", "TXS=0", "KILLS=0", "DRIFTS=0", "TRIES=0"}, Live: []string{"WaitEnds"}},
	{Name: "transactions end", Model: session, Big: true, Defines: []string{"LIVE=1", "LEASE=2", "KILLS=0", "DRIFTS=0", "TRIES=0", "CANCELS=0"}, Live: []string{"TransactionEnds"}},
	{Name: "waits end in rows", Model: rows, Defines: []string{"LIVE=1", "LEASE=2", "TXS=0", "DRIFTS=0", "PRUNES=0"}, Live: []string{"WaitEnds"}},
	{Name: "transactions end in rows", Model: rows, Defines: []string{"LIVE=1", "LEASE=2", "CALLS=1", "LOSSES=0", "DRIFTS=0", "PRUNES=0"}, Live: []string{"TransactionEnds"}},
	{Name: "deadlock", Model: deadlock, Defines: []string{"WAITS=2", "LOOKS=3"}},
	{Name: "deadlock, one call each", Fast: true, Model: deadlock, Defines: []string{"WAITS=1", "LOOKS=4"}},
}

// The number of a mutation is its place here, from 1 on, in the mutations of its model.
var mutations = []mutation{
	{"NO_MARGIN", "silence", "the margin of the client's lease, while the server's clock is faster", "HeldAlone"},
	{"FROM_RECEIPT", "silence", "counting the lease from the sending of the statement, not from its answer", "HeldAlone"},
	{"WAIT_FROM_RECEIPT", "silence", "the heartbeat that confirms a lock after a long wait", "HeldAlone"},
	{"NO_CLOCK", "silence", "the comparison of the clock in Err", "HeldAlone"},
	{"NO_CLEAN_UP", "two keys", "unlocking what a cancelled wait has left", "NothingAfterError"},
	{"NO_RETRY", "two keys", "repeating the unlocking that a late cancel request has hit", "NothingAfterError"},
	{"NO_TAKE_BACK", "silence", "giving back what a try got after its caller had left", "NothingAfterError"},
	{"NO_RECONCILE", "silence", "looking what a failed release has left", "NothingAfterError"},
	{"NO_AWAIT", "guard", "step 1 of GuardTx: waiting for the transactions of earlier holders", "InOrder"},
	{"NO_COMPANION", "guard", "step 2: holding the companion until the transaction ends", "InOrder"},
	{"NO_IDENTITY", "failover", "step 3: the identity, after a failover", "InOrder"},
	{"NO_PROOF", "stranger", "step 4: asking the session itself, while a stranger waits for the identity", "InOrder"},
	{"IDENTITY_LAST", "guard", "freeing the identity first", ""},
	{"NO_PROOF_IDENTITY_LAST", "guard", "freeing the identity first, and step 4", "InOrder"},
	{"NO_PROOF_ALONE", "guard", "step 4, without a stranger", ""},
	{"NO_ABORT", "guard", "making the transaction fail whose guard has failed", "InOrder"},
	{"NO_LAST_LOOK", "guard", "the last look at Err in GuardTx", "InOrder"},
	{"FIRST_OF_SESSION", "handoff", "waiting again after a handoff", "InOrder"},
	{"ONE_KIND", "shared", "waiting for the readers too", "InOrder"},
	{"KILLS_COUNT", "terminated", "the exception: a session that the server ends", "HeldAlone"},
	{"JUMPS_COUNT", "clock", "the exception: a server's clock that is set forward", "HeldAlone"},
	{"SERVERS_COUNT", "failover", "the exception: an old primary that lives on", "HeldAlone"},
	{"UNGUARDED", "guard", "GuardTx itself", "InOrder"},
	{"NO_LEASE_END", "waits end", "the end of a silent session by the server", "LockFreed"},
	{"NO_DEADLINE", "waits end", "the deadline, or the look of another session, for a wait whose server is silent", "WaitEnds"},
	{"FORGETS_GRANT", "contexts end", "taking the grant that meets a cancel request", "WaitEnds"},
	{"CANCELS_ONCE", "contexts end", "repeating a cancel request until the wait is answered", "WaitEnds"},
	{"TX_STAYS", "transactions end", "the end of a transaction whose client is silent", "TransactionEnds"},

	{"NO_MARGIN", "lease", "the margin of the process's lease, while the server's clock is faster", "HeldAlone"},
	{"FROM_RECEIPT", "lease", "counting the lease from the sending of the renewal, not from its answer", "HeldAlone"},
	{"NO_CLOCK", "lease", "the comparison of the clock in Err", "HeldAlone"},
	{"OVER_IN_SNAPSHOT", "clock of rows", "looking after locking: one statement with EXISTS (its holder is over)", "HeldAlone"},
	{"NOT_LIVE_IN_SNAPSHOT", "ended", "looking after locking: one statement with NOT EXISTS (live holder)", "HeldAlone"},
	{"NO_MARK", "clock of rows", "marking an expired holder as ended", "HeldAlone"},
	{"RENEWS_THE_ENDED", "clock of rows", "the condition of a renewal that the holder is not ended", "HeldAlone"},
	{"RENEWS_THE_EXPIRED", "clock of rows", "the condition of a renewal that the holder has not expired", ""},
	{"NO_SETTLEMENT", "lost answer", "the settlement of a call whose answer was lost", "NothingAfterError"},
	{"NO_FLOOR", "lost answer", "refusing a late call after its settlement", "NothingAfterError"},
	{"SETTLES_BESIDE_CALLS", "lost answer", "the wait of a settlement for a call that runs", "NothingAfterError"},
	{"NO_LOCK_ON_HOLDER", "lost answer", "the lock of a call on the row of its holder", "NothingAfterError"},
	{"NO_UNDO", "lost answer", "giving back what a settled call took", "NothingAfterError"},
	{"GUARD_LOCKS_NOTHING", "guard in rows", "the lock of GuardTx on the row of the lock", "InOrder"},
	{"GUARD_OF_ANY_GENERATION", "guard in rows, no faults", "the generation in GuardTx", "InOrder"},
	{"TAKES_LOCKED_ROWS", "guard in rows", "passing over rows that are locked", "InOrder"},
	{"PRUNE_LEAVES_LEASES", "pruning and crash", "freeing the locks of a holder before its row is deleted", "HolderKnown"},
	{"KILLS_COUNT", "ended", "the exception: a holder that a person ends", "HeldAlone"},
	{"JUMPS_COUNT", "clock of rows", "the exception: a server's clock that is set forward", "HeldAlone"},
	{"UNGUARDED", "guard in rows", "GuardTx itself", "InOrder"},
	{"NOT_DURABLE", "pruning and crash", "waiting until the commit of a grant is durable", "HeldAlone"},
	{"NO_DEADLINE", "waits end in rows", "the end of the lease in a process whose server is silent", "WaitEnds"},
	{"TX_STAYS", "transactions end in rows", "the end of a transaction whose process is silent", "TransactionEnds"},

	{"NO_SECOND_LOOK", "deadlock, one call each", "the second look at a cycle", "Deadlocked"},
	{"ONE_ANSWER", "deadlock, one call each", "the second of the two answers that each process must have had between the looks", "Deadlocked"},
	{"NO_ORDER", "deadlock, one call each", "the choice of the victim: the youngest call", "OneVictim"},
	{"ANY_WAIT", "deadlock", "that both looks see the same calls", "Deadlocked"},
}

// live reports whether the configuration is one of what happens at last.
func (c configuration) live() bool { return len(c.Live) > 0 }

// breaking says how to look for counterexamples to mutations.
func (c configuration) breaking() search {
	if c.live() {
		return forever
	}
	return shortest
}

// files returns the models.
func files() (names []string) {
	for _, c := range configurations {
		if !slices.Contains(names, c.Model) {
			names = append(names, c.Model)
		}
	}
	return names
}
