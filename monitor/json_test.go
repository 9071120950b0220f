package monitor_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Programs read this form: fields may be added to it, and none renamed or removed.
const stableJSON = `{
  "taken_at": "2026-01-02T03:04:05.000006Z",
  "server_version": "17.0",
  "database": "shop",
  "role": "dba",
  "names_missing": "",
  "details_hidden": "role \"dba\" may not",
  "blockers_missing": "",
  "locks": [
    {
      "key": "invoice:42",
      "names": [
        "invoice:42"
      ],
      "space": "bigint",
      "objsubid": 1,
      "number": "6688477336110245193",
      "class": 1557282060,
      "object": -1234567,
      "database_oid": 16384,
      "database": "shop",
      "holders": [
        {
          "mode": "shared",
          "pid": 0,
          "gid": "tx-1",
          "prepared_at": "2026-01-02T03:04:05.000006Z",
          "user": "app",
          "database": "shop",
          "application": "",
          "client": "",
          "state": "",
          "state_since": null,
          "query": "",
          "session_since": null,
          "transaction_since": null,
          "wait_event_type": "",
          "wait_event": "",
          "hidden": []
        }
      ],
      "waiters": [
        {
          "mode": "exclusive",
          "waiting_since": "2026-01-02T03:04:05.000006Z",
          "pid": 4711,
          "gid": "",
          "prepared_at": null,
          "user": "app",
          "database": "shop",
          "application": "payroll",
          "client": "192.0.2.7:49152",
          "state": "active",
          "state_since": "2026-01-02T03:04:05.000006Z",
          "query": "SELECT 1",
          "session_since": "2026-01-02T03:04:05.000006Z",
          "transaction_since": "2026-01-02T03:04:05.000006Z",
          "wait_event_type": "Lock",
          "wait_event": "advisory",
          "hidden": [
            "query"
          ],
          "blocked_by": [
            {
              "pid": 0,
              "gid": "tx-1",
              "kind": "hard"
            }
          ]
        }
      ]
    }
  ]
}`

func TestTheJSONFormIsStable(t *testing.T) {
	then := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	s := monitor.Snapshot{
		TakenAt: then, ServerVersion: "17.0", Database: "shop", Role: "dba", DetailsHidden: "role \"dba\" may not",
		Locks: []monitor.Lock{{
			Key: "invoice:42", Names: []string{"invoice:42"}, Space: monitor.Bigint, Objsubid: 1,
			Number: 6688477336110245193, Class: 1557282060, Object: -1234567, DatabaseOID: 16384, Database: "shop",
			Holders: []monitor.Holder{{Mode: monitor.Shared, Session: monitor.Session{
				GID: "tx-1", PreparedAt: &then, User: "app", Database: "shop", Hidden: []string{}}}},
			Waiters: []monitor.Waiter{{Mode: monitor.Exclusive, WaitingSince: &then, Session: monitor.Session{
				PID: 4711, User: "app", Database: "shop", Application: "payroll", Client: "192.0.2.7:49152",
				State: "active", StateSince: &then, Query: "SELECT 1", Since: &then, TransactionSince: &then,
				WaitEventType: "Lock", WaitEvent: "advisory", Hidden: []string{"query"}},
				BlockedBy: []monitor.Blocker{{GID: "tx-1", Kind: monitor.Hard}}}},
		}},
	}
	text, err := json.MarshalIndent(s, "", "  ")
	check(t, err)
	if string(text) != stableJSON {
		t.Errorf("the JSON form is now\n%s", text)
	}
	var read monitor.Snapshot
	check(t, json.Unmarshal(text, &read))
	if !reflect.DeepEqual(read, s) {
		t.Errorf("it reads back as %+v, want %+v", read, s)
	}
}
