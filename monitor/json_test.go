package monitor_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// What is read back is what was written; the schema says how it is written.
func TestJSONReadsBack(t *testing.T) {
	then := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	age := func(n int64) *int64 { return &n }
	other := monitor.Session{PID: 4712, User: "app", Database: "shop", Hidden: []string{}}
	s := monitor.Snapshot{
		Version: monitor.FormatVersion, TakenAt: then, ServerVersion: "17.0",
		Server: monitor.Server{Host: "192.0.2.1", Port: 5432, InRecovery: true}, Database: "shop", Role: "dba",
		DetailsHidden: "role \"dba\" may not",
		Capacity: monitor.Capacity{Nominal: 6400, Used: 12, Advisory: 2, MaxLocksPerTransaction: 64, MaxConnections: 100,
			Top: []monitor.SessionLoad{{Locks: 7, Session: monitor.Session{
				PID: 4711, User: "app", Database: "shop", Hidden: []string{}}}}},
		Cycles: []monitor.Cycle{{Since: &then, Steps: []monitor.Step{{PID: 4711, Process: "1f3a9c42", Key: "invoice:42",
			Database: "shop", BlockedBy: 4712, Kind: "hard"}}}},
		Locks: []monitor.Lock{{
			Key: "invoice:42", Names: []string{"invoice:42"}, Kind: "semaphore", Used: 1, Limit: 3, Space: "bigint", Objsubid: 1,
			Guesses: []string{"Rails migrations of database shop"},
			Number:  6688477336110245193, Class: 1557282060, Object: -1234567, DatabaseOID: 16384, Database: "shop",
			Holders: []monitor.Holder{{Mode: "shared", SeenSince: &then, Code: "statement: SELECT 1", Session: monitor.Session{
				GID: "tx-1", PreparedAt: &then, User: "app", Database: "shop", XIDAge: age(100), Hidden: []string{}}}},
			Waiters: []monitor.Waiter{{Mode: "exclusive", WaitingSince: &then,
				Session: monitor.Session{
					PID: 4711, User: "app", Database: "shop", Application: "payroll (pglock 1f3a9c42)", Process: "1f3a9c42",
					Client: "192.0.2.7:49152", BackendType: "client backend",
					State: "active", StateSince: &then, Query: "SELECT 1", Since: &then, TransactionSince: &then,
					XminAge: age(99), WaitEventType: "Lock", WaitEvent: "advisory", Hidden: []string{"query"}},
				Ahead: 2, BlockedBy: []monitor.Blocker{{GID: "tx-1", Kind: "hard"}}}},
		}, {
			InRow: true, Key: "job", Names: []string{"job"}, Guesses: []string{}, Kind: "leader", Space: "bigint", Objsubid: 1,
			Number: 7440995589958059143, Class: 1732490752, Object: 7, DatabaseOID: 16384, Database: "shop",
			Holders: []monitor.Holder{{Mode: "exclusive", Generation: 41, SeenSince: &then, Session: monitor.Session{
				User: "app", Database: "shop", Application: "payroll", Since: &then, Hidden: []string{},
				Lease: &monitor.Lease{Holder: "00112233445566aa", Host: "node1", PID: 7, Expires: &then}}}},
			Waiters: []monitor.Waiter{},
		}},
		OtherWaits: []monitor.OtherWait{{
			Lock:   monitor.OtherLock{Type: "tuple", DatabaseOID: 16384, Database: "shop", Relation: 16400, Name: "orders", Detail: "(7,3)"},
			Waiter: monitor.Waiter{Mode: "exclusive", Session: other, BlockedBy: []monitor.Blocker{}},
		}},
		WaitsElsewhere:  3,
		OtherSessions:   []monitor.Session{other},
		RowLocksMissing: "3 of 4 are left out",
	}
	text, err := json.Marshal(s)
	must.Succeed(t, err)
	var read monitor.Snapshot
	must.Succeed(t, json.Unmarshal(text, &read))
	if !reflect.DeepEqual(read, s) {
		t.Errorf("decoded it is %+v, want %+v", read, s)
	}
}
