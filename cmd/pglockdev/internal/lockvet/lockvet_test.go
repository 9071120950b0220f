package lockvet_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/pglock-toolkit/pglock/cmd/pglockdev/internal/lockvet"
)

// run compares what an analyzer reports of packages of testdata with the comments in them.
func run(t *testing.T, analyzer string, packages ...string) {
	t.Helper()
	all := lockvet.Analyzers()
	at := slices.IndexFunc(all, func(a *analysis.Analyzer) bool { return a.Name == analyzer })
	if at < 0 {
		t.Fatalf("there is no %s", analyzer)
	}
	analysistest.Run(t, analysistest.TestData(), all[at], packages...)
}

func TestProgramVetReportsPlainTransactions(t *testing.T) {
	run(t, "pglockplain", "plain", "db")
}

func TestProgramVetReportsHandMadeKeys(t *testing.T) {
	run(t, "pglockkey", "keys", "locks")
}

func TestProgramVetReportsLocksThatAreNotUnlocked(t *testing.T) {
	run(t, "pglockunlock", "unlock")
}

func TestProgramVetReportsWorkThatIgnoresTheLocksContext(t *testing.T) {
	run(t, "pglockcontext", "underlock")
}

func TestProgramVetReportsTransactionLocksOutsideTransactions(t *testing.T) {
	run(t, "pglocktx", "tx")
}

func TestProgramVetReportsErrorsThatAreIgnored(t *testing.T) {
	run(t, "pglockignored", "ignored")
}

func TestProgramVetReportsWritesBeforeTheGuard(t *testing.T) {
	run(t, "pglockguard", "guard")
}

func TestProgramVetReportsLocksInALoop(t *testing.T) {
	run(t, "pglockloop", "loop")
}

func TestProgramVetReportsOptionsThatAreRefused(t *testing.T) {
	run(t, "pglockoption", "option")
}

func TestProgramVetReportsHandMadeSQL(t *testing.T) {
	run(t, "pglockraw", "raw")
}

func TestProgramVetAllowsWhatACommentAllows(t *testing.T) { run(t, "pglockraw", "allow") }

func TestProgramVetReportsCallsInSQLFiles(t *testing.T) {
	got := lockvet.RawInSQL(`-- SELECT pg_advisory_lock(1)
/*
SELECT pg_advisory_lock(2)
*/ SELECT 'pg_advisory_lock(3)', '
it''s';
SELECT pg_advisory_lock(4);
CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_catalog.pg_try_advisory_xact_lock_shared(5);
END $$;
-- pglock: allow, since the old service takes it too
SELECT pg_advisory_xact_lock(6);
SELECT pg_advisory_unlock(7); --pglock:allow
SELECT proname FROM pg_proc WHERE proname LIKE 'pg_advisory%';
CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_xact_lock(locks.invoice(NEW.id));
	PERFORM pg_advisory_xact_lock_shared(pglock.key('tenant:' || NEW.tenant));
	PERFORM pg_advisory_xact_lock(pg_catalog.hashtext(NEW.tenant));
	PERFORM pg_advisory_lock(locks.invoice(NEW.id));
END $$;
`)
	if got := lockvet.RawInSQL("-- It takes the locks of the old service.\n-- pglock: allow\n\nSELECT pg_advisory_lock(1);"); len(got) > 0 {
		t.Errorf("in a file that is allowed: %v", got)
	}
	if got := lockvet.RawInSQL("-- pglock: allow\nSELECT pg_advisory_lock(1);\nSELECT pg_advisory_lock(2);"); len(got) != 1 {
		t.Errorf("in a file whose first statement is allowed: %v", got)
	}
	want := map[int]string{6: "pg_advisory_lock by hand", 9: "pg_try_advisory_xact_lock_shared by hand",
		19: "pg_advisory_xact_lock by hand", 20: "pg_advisory_lock by hand"}
	for line, text := range want {
		if !strings.HasPrefix(got[line], text) {
			t.Errorf("line %d: %q, want %q", line, got[line], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("lines %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
