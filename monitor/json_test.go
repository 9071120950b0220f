package monitor_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Programs read this form: fields may be added to it, and none renamed or removed.
const stableJSON = `{
  "version": 1,
  "taken_at": "2026-01-02T03:04:05.000006Z",
  "server_version": "17.0",
  "server": {
    "host": "192.0.2.1",
    "port": 5432,
    "in_recovery": true,
    "label": "db1"
  },
  "database": "shop",
  "role": "dba",
  "names_missing": "",
  "details_hidden": "role \"dba\" may not",
  "blockers_missing": "",
  "capacity": {
    "nominal": 6400,
    "used": 12,
    "advisory": 2,
    "max_locks_per_transaction": 64,
    "max_connections": 100,
    "max_prepared_transactions": 0,
    "top": [
      {
        "pid": 4711,
        "gid": "",
        "prepared_at": null,
        "user": "app",
        "database": "shop",
        "application": "",
        "process": "",
        "identity": null,
        "client": "",
        "backend_type": "",
        "leader_pid": 0,
        "state": "",
        "state_since": null,
        "query": "",
        "session_since": null,
        "transaction_since": null,
        "xmin_age": null,
        "xid_age": null,
        "wait_event_type": "",
        "wait_event": "",
        "hidden": [],
        "locks": 7
      }
    ]
  },
  "cycles": [
    {
      "certain": false,
      "since": "2026-01-02T03:04:05.000006Z",
      "steps": [
        {
          "pid": 4711,
          "process": "1f3a9c42",
          "key": "invoice:42",
          "database": "shop",
          "blocked_by": 4712,
          "kind": "hard"
        }
      ]
    }
  ],
  "locks": [
    {
      "key": "invoice:42",
      "names": [
        "invoice:42"
      ],
      "guesses": [
        {
          "tool": "Rails",
          "text": "Rails migrations of database shop",
          "confidence": "probably"
        }
      ],
      "kind": "semaphore",
      "used": 1,
      "limit": 3,
      "space": "bigint",
      "objsubid": 1,
      "number": "6688477336110245193",
      "class": 1557282060,
      "object": -1234567,
      "classid": 1557282060,
      "objid": 4293732729,
      "database_oid": 16384,
      "database": "shop",
      "holders": [
        {
          "mode": "shared",
          "seen_since": "2026-01-02T03:04:05.000006Z",
          "code": {
            "source": "waited",
            "statement": "SELECT 1",
            "tags": {
              "action": "pay"
            }
          },
          "pid": 0,
          "gid": "tx-1",
          "prepared_at": "2026-01-02T03:04:05.000006Z",
          "user": "app",
          "database": "shop",
          "application": "",
          "process": "",
          "identity": null,
          "client": "",
          "backend_type": "",
          "leader_pid": 0,
          "state": "",
          "state_since": null,
          "query": "",
          "session_since": null,
          "transaction_since": null,
          "xmin_age": null,
          "xid_age": 100,
          "wait_event_type": "",
          "wait_event": "",
          "hidden": []
        }
      ],
      "waiters": [
        {
          "mode": "exclusive",
          "waiting_since": "2026-01-02T03:04:05.000006Z",
          "waiting_estimated": true,
          "pid": 4711,
          "gid": "",
          "prepared_at": null,
          "user": "app",
          "database": "shop",
          "application": "payroll (pglock 1f3a9c42)",
          "process": "1f3a9c42",
          "identity": -7,
          "client": "192.0.2.7:49152",
          "backend_type": "client backend",
          "leader_pid": 0,
          "state": "active",
          "state_since": "2026-01-02T03:04:05.000006Z",
          "query": "SELECT 1",
          "session_since": "2026-01-02T03:04:05.000006Z",
          "transaction_since": "2026-01-02T03:04:05.000006Z",
          "xmin_age": 99,
          "xid_age": null,
          "wait_event_type": "Lock",
          "wait_event": "advisory",
          "hidden": [
            "query"
          ],
          "ahead": 2,
          "blocked_by": [
            {
              "pid": 0,
              "gid": "tx-1",
              "kind": "hard",
              "mode": ""
            }
          ]
        }
      ]
    }
  ],
  "other_waits": [
    {
      "lock": {
        "type": "tuple",
        "database_oid": 16384,
        "database": "shop",
        "relation": 16400,
        "schema": "public",
        "name": "orders",
        "page": 7,
        "tuple": 3,
        "transaction_id": "",
        "virtual_xid": "",
        "class_id": 0,
        "object_id": 0,
        "objsubid": 0
      },
      "mode": "exclusive",
      "waiting_since": null,
      "waiting_estimated": false,
      "pid": 4712,
      "gid": "",
      "prepared_at": null,
      "user": "app",
      "database": "shop",
      "application": "",
      "process": "",
      "identity": null,
      "client": "",
      "backend_type": "",
      "leader_pid": 0,
      "state": "",
      "state_since": null,
      "query": "",
      "session_since": null,
      "transaction_since": null,
      "xmin_age": null,
      "xid_age": null,
      "wait_event_type": "",
      "wait_event": "",
      "hidden": [],
      "ahead": 0,
      "blocked_by": []
    }
  ],
  "waits_elsewhere": 3,
  "other_sessions": [
    {
      "pid": 4712,
      "gid": "",
      "prepared_at": null,
      "user": "app",
      "database": "shop",
      "application": "",
      "process": "",
      "identity": null,
      "client": "",
      "backend_type": "",
      "leader_pid": 0,
      "state": "",
      "state_since": null,
      "query": "",
      "session_since": null,
      "transaction_since": null,
      "xmin_age": null,
      "xid_age": null,
      "wait_event_type": "",
      "wait_event": "",
      "hidden": []
    }
  ],
  "row_locks": [
    {
      "key": "job",
      "name": "job",
      "kind": "leader",
      "space": "bigint",
      "number": "7440995589958059143",
      "class": 1732490752,
      "object": 7,
      "holders": [
        {
          "mode": "exclusive",
          "generation": "41",
          "held_since": "2026-01-02T03:04:05.000006Z",
          "holder": "00112233445566aa",
          "user": "app",
          "application": "payroll",
          "host": "node1",
          "pid": 7,
          "process_since": "2026-01-02T03:04:05.000006Z",
          "lease_expires": "2026-01-02T03:04:05.000006Z",
          "hidden": []
        }
      ],
      "waiters": [
        {
          "mode": "shared",
          "arrival": "42",
          "waiting_since": "2026-01-02T03:04:05.000006Z",
          "holder": "00112233445566bb",
          "user": "",
          "application": "",
          "host": "",
          "pid": 0,
          "process_since": null,
          "lease_expires": null,
          "hidden": [
            "user"
          ],
          "blocked_by": [
            "00112233445566aa"
          ]
        }
      ]
    }
  ],
  "row_locks_missing": "3 of 4 are left out"
}`

func TestJSONFormIsStable(t *testing.T) {
	then := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	age := func(n int64) *int64 { return &n }
	seenCode := &monitor.Code{Source: monitor.CodeSeenWaiting, Statement: "SELECT 1", Tags: map[string]string{"action": "pay"}}
	object, page, tuple := int32(-7), int32(7), int16(3)
	other := monitor.Session{PID: 4712, User: "app", Database: "shop", Hidden: []string{}}
	s := monitor.Snapshot{
		Version: monitor.FormatVersion, TakenAt: then, ServerVersion: "17.0",
		Server: monitor.Server{Host: "192.0.2.1", Port: 5432, InRecovery: true, Label: "db1"}, Database: "shop", Role: "dba",
		DetailsHidden: "role \"dba\" may not",
		Capacity: monitor.Capacity{Nominal: 6400, Used: 12, Advisory: 2, MaxLocksPerTransaction: 64, MaxConnections: 100,
			Top: []monitor.SessionLoad{{Locks: 7, Session: monitor.Session{
				PID: 4711, User: "app", Database: "shop", Hidden: []string{}}}}},
		Cycles: []monitor.Cycle{{Since: &then, Steps: []monitor.Step{{PID: 4711, Process: "1f3a9c42", Key: "invoice:42",
			Database: "shop", BlockedBy: 4712, Kind: monitor.BlockHard}}}},
		Locks: []monitor.Lock{{
			Key: "invoice:42", Names: []string{"invoice:42"}, Kind: monitor.KindSemaphore, Used: 1, Limit: 3, Space: monitor.SpaceBigint, Objsubid: 1,
			Guesses: []monitor.Guess{{
				Tool: "Rails", Text: "Rails migrations of database shop", Confidence: monitor.ConfidenceProbable}},
			Number: 6688477336110245193, Class: 1557282060, Object: -1234567, ClassID: 1557282060, ObjectID: 4293732729, DatabaseOID: 16384, Database: "shop",
			Holders: []monitor.Holder{{Mode: monitor.ModeShared, SeenSince: &then, Code: seenCode, Session: monitor.Session{
				GID: "tx-1", PreparedAt: &then, User: "app", Database: "shop", XIDAge: age(100), Hidden: []string{}}}},
			Waiters: []monitor.Waiter{{Mode: monitor.ModeExclusive, WaitingSince: &then, WaitingEstimated: true,
				Session: monitor.Session{
					PID: 4711, User: "app", Database: "shop", Application: "payroll (pglock 1f3a9c42)", Process: "1f3a9c42",
					Identity: &object, Client: "192.0.2.7:49152", BackendType: "client backend",
					State: "active", StateSince: &then, Query: "SELECT 1", Since: &then, TransactionSince: &then,
					XminAge: age(99), WaitEventType: "Lock", WaitEvent: "advisory", Hidden: []string{"query"}},
				Ahead: 2, BlockedBy: []monitor.Blocker{{GID: "tx-1", Kind: monitor.BlockHard}}}},
		}},
		OtherWaits: []monitor.OtherWait{{
			Lock: monitor.OtherLock{Type: "tuple", DatabaseOID: 16384, Database: "shop", Relation: 16400, Schema: "public",
				Name: "orders", Page: &page, Tuple: &tuple},
			Waiter: monitor.Waiter{Mode: monitor.ModeExclusive, Session: other, BlockedBy: []monitor.Blocker{}},
		}},
		WaitsElsewhere: 3,
		OtherSessions:  []monitor.Session{other},
		RowLocks: []monitor.RowLock{{
			Key: "job", Name: "job", Kind: monitor.KindLeader, Space: monitor.SpaceBigint, Number: 7440995589958059143, Class: 1732490752, Object: 7,
			Holders: []monitor.RowHolder{{Mode: monitor.ModeExclusive, Generation: 41, HeldSince: then, RowProcess: monitor.RowProcess{
				Holder: "00112233445566aa", User: "app", Application: "payroll", Host: "node1", PID: 7, Since: &then, LeaseExpires: &then,
				Hidden: []string{}}}},
			Waiters: []monitor.RowWaiter{{Mode: monitor.ModeShared, Arrival: 42, WaitingSince: then,
				RowProcess: monitor.RowProcess{Holder: "00112233445566bb", Hidden: []string{"user"}},
				BlockedBy:  []string{"00112233445566aa"}}},
		}},
		RowLocksMissing: "3 of 4 are left out",
	}
	text, err := json.MarshalIndent(s, "", "  ")
	must.Succeed(t, err)
	if string(text) != stableJSON {
		t.Errorf("the JSON form is now\n%s", text)
	}
	var read monitor.Snapshot
	must.Succeed(t, json.Unmarshal(text, &read))
	if !reflect.DeepEqual(read, s) {
		t.Errorf("decoded it is %+v, want %+v", read, s)
	}
}
