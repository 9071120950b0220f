package ratelimit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

// plantRates makes functions that an untrusted role would offer for others to execute.
const plantRates = `
CREATE FUNCTION pglock.rate_take(text[], bigint[], bigint[], bigint[], bigint[], bigint[])
	RETURNS TABLE (granted bigint, start bigint, at bigint)
	LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM trap.spring(); granted := 1; RETURN NEXT; END';
CREATE FUNCTION pglock.rate_return(text, bigint, bigint) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN trap.spring(); END';
CREATE FUNCTION pglock.rate_prune(integer) RETURNS bigint
	LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM trap.spring(); RETURN 0; END'`

func TestRatelimitDoesNotUseAPlantedSchema(t *testing.T) {
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSearchPath()
	tenant.PlantSchema(migrations.Latest())
	tenant.Exec(plantRates)
	pool := db.Pool(t)
	_, allowErr := open(t, pool).Allow(t.Context(), "k", slow)
	pruneErr := ratelimit.Prune(t.Context(), pool)
	for _, err := range []error{allowErr, pruneErr} {
		if !errors.Is(err, pglock.ErrUntrusted) || !strings.Contains(err.Error(), "WithTrustedOwner") {
			t.Errorf("%v: want ErrUntrusted, and the option of package ratelimit", err)
		}
	}
	tenant.WantNothingGained("after all that package ratelimit does")
}
