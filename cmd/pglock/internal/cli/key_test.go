package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestKeyShowsNumbersAndSQL(t *testing.T) {
	t.Parallel()
	r := command(t, nil, "key", "invoice:42", "@-5", "@7/-42", "@@x").run()
	wantCode(t, r, 0)
	want := `invoice:42
  number       6688477336110245193
  in pg_locks  classid 1557282483, objid 991569225, objsubid 1
  session      SELECT pg_advisory_lock(6688477336110245193);
               SELECT pg_advisory_unlock(6688477336110245193);
  transaction  SELECT pg_advisory_xact_lock(6688477336110245193);
               SELECT pg_advisory_xact_lock(pglock.key('invoice:42'));

@-5
  number       -5
  in pg_locks  classid 4294967295, objid 4294967291, objsubid 1
  session      SELECT pg_advisory_lock(-5);
               SELECT pg_advisory_unlock(-5);
  transaction  SELECT pg_advisory_xact_lock(-5);

@7/-42
  number       7, -42
  in pg_locks  classid 7, objid 4294967254, objsubid 2
  session      SELECT pg_advisory_lock(7, -42);
               SELECT pg_advisory_unlock(7, -42);
  transaction  SELECT pg_advisory_xact_lock(7, -42);
`
	if !strings.HasPrefix(r.stdout, want) || r.stderr != "" {
		t.Errorf("stdout is\n%sstderr is %q, want\n%s", r.stdout, r.stderr, want)
	}
	wantText(t, r.stdout, "pglock.key('@x')")
}

// The printed statements take and free the lock that the printed fields of pg_locks describe.
func TestKeyTheSQLTakesTheLock(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	conn := db.Connect(t)
	names := []string{"invoice:42", "it's", "日本語/注文", "@@home", "@-9223372036854775808", "@-1/2147483647",
		"a\nb\t'\x1b[2J", `a\nb\`, "\u009b\u202e\U000e0001", "\ufffd"}
	var keys []map[string]any
	r := command(t, nil, append([]string{"key", "-o", "json"}, names...)...).run()
	must.Succeed(t, json.Unmarshal([]byte(r.stdout), &keys))
	for i, key := range keys {
		if key["key"] != names[i] {
			t.Errorf("key %d is %v", i, key)
		}
		for _, statement := range []string{"session_sql", "transaction_sql", "transaction_by_name_sql"} {
			sql, _ := key[statement].(string)
			if sql == "" && strings.HasPrefix(names[i], "@") && statement == "transaction_by_name_sql" {
				continue
			}
			if strings.ContainsFunc(sql, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q cannot be copied from a terminal", sql)
			}
			_, err := conn.Exec(t.Context(), "BEGIN; "+sql)
			must.Succeed(t, err)
			var seen bool
			must.Succeed(t, conn.QueryRow(t.Context(), `SELECT count(*) = 1 AND bool_and(classid = $1 AND objid = $2 AND objsubid = $3)
				FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()`,
				uint32(key["classid"].(float64)), uint32(key["objid"].(float64)), int16(key["objsubid"].(float64))).Scan(&seen))
			if !seen {
				t.Errorf("%s did not take the lock that %v describes", sql, key)
			}
			_, err = conn.Exec(t.Context(), "ROLLBACK")
			must.Succeed(t, err)
			if statement == "session_sql" {
				unlocked := must.One[bool](t, conn, key["session_unlock_sql"].(string))
				if !unlocked {
					t.Errorf("%v did not unlock", key["session_unlock_sql"])
				}
			}
		}
	}
}

func TestKeyInvalidKeys(t *testing.T) {
	t.Parallel()
	for arg, says := range map[string]string{
		"": "empty", "a\xff": "UTF-8", "@": `"@"`, "@x": `"@x"`, "@1/2/3": `"@1/2/3"`, "@9223372036854775808": `"@9223372036854775808"`,
	} {
		r := command(t, nil, "key", "good", arg).run()
		wantCode(t, r, 64)
		wantText(t, r.stderr, says)
		if r.stdout != "" {
			t.Errorf("stdout is %s", r.stdout)
		}
	}
	wantCode(t, command(t, nil, "key").run(), 64)
	r := command(t, nil, "key", "42").run()
	wantCode(t, r, 0)
	wantText(t, r.stderr, "did you mean @42")
	wantText(t, r.stdout, "pglock.key('42')")
}
