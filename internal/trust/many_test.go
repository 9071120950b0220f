package trust_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// However many objects there are, a bounded number of them is looked at.
func TestTrustOfTooManyObjects(t *testing.T) {
	repeat := func(n int, format string) string {
		return fmt.Sprintf("DO $do$ BEGIN FOR i IN 1..%d LOOP EXECUTE format($f$%s$f$, i); END LOOP; END $do$;", n, format)
	}
	const function = "CREATE FUNCTION pglock.f%s() RETURNS int LANGUAGE sql AS 'SELECT 1'"
	for name, test := range map[string]struct{ sql, owner string }{
		"in the administrator's schema": {repeat(2001, function), ""},
		"that one of its tables leads to": {
			"CREATE TABLE public.child (key bigint, name text COLLATE \"C\", FOREIGN KEY (key, name) REFERENCES pglock.names);" +
				repeat(700, "ALTER TABLE public.child ADD CHECK (key <> %s) NOT VALID") +
				repeat(700, "CREATE STATISTICS public.s%s ON key, name FROM public.child") +
				repeat(700, "CREATE POLICY p%s ON public.child"), ""},
		"in a tenant's schema": {repeat(2001, function), "tenant"},
	} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Installed(t)
			admin := db.Connect(t)
			execute(t, admin, test.sql)
			tenant := ""
			if test.owner != "" {
				tenant = user(connect(t, db.Role(t, test.owner)))
				execute(t, admin, "ALTER SCHEMA pglock OWNER TO "+quote(tenant))
			}
			err := check(t, admin, nil, "names")
			found, findErr := trust.Find(t.Context(), admin, trust.Owners{})
			if tenant != "" {
				wantUntrusted(t, err, "schema pglock", tenant)
				if findErr != nil || len(found) == 0 || found[0].Object != "schema pglock" {
					t.Errorf("found %v, %v", found, findErr)
				}
				return
			}
			for what, err := range map[string]error{"check": err, "find": findErr} {
				if !errors.Is(err, trust.ErrTooMany) || !errors.Is(err, driver.ErrUntrusted) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}
