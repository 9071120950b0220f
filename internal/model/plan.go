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
	Fast    bool // make test-matrix searches it too
	Big     bool // only make model without FAST=1 searches it
}

// mutation leaves out a step of the argument, or counts what docs/guarantees.md excludes.
type mutation struct {
	Name    string // the macro in the model
	In      string // the configuration in which a counterexample is looked for
	Without string // the step
	Breaks  string // the property; "" if other steps cover for this one
}

const session = "session.pml"

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
