package journal

import (
	"testing"

	"github.com/pglock-toolkit/pglock/pglock"
)

func TestMayTake(t *testing.T) {
	t.Parallel()
	seven, pair := pglock.Int64Key(7).ID(), pglock.PairKey(7, -42).ID()
	for _, test := range []struct {
		query string
		key   pglock.KeyID
		waits bool
		want  bool
	}{
		{"SELECT pg_advisory_lock(7)", seven, false, true},
		{"SELECT pg_advisory_lock( 7 ), pg_advisory_lock(8)", seven, true, true},
		{"select PG_TRY_ADVISORY_XACT_LOCK_SHARED(7, -42)", pair, true, true},
		{"SELECT pg_advisory_lock(8)", seven, false, false},
		{"SELECT pg_advisory_lock(8)", seven, true, false},
		{"SELECT pg_advisory_lock(7)", pair, false, false},
		{"SELECT pg_advisory_lock(7, 99999999999)", pair, false, true},
		{"SELECT pg_advisory_lock($1)", seven, false, true},
		{"SELECT pg_advisory_lock($1)", seven, true, false},
		{"SELECT pg_advisory_lock(hashtext('x'))", seven, false, true},
		{"… advisory … /*action='pay'*/", seven, false, true},
		{"… advisory … /*action='pay'*/", seven, true, false},
		{"SELECT 7", seven, false, false},
	} {
		if got := mayTake(test.query, test.key, test.waits); got != test.want {
			t.Errorf("%s of %v, waits %t: %t", test.query, test.key, test.waits, got)
		}
	}
}
