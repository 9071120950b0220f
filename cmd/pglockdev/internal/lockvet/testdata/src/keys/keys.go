package keys

import (
	"fmt"

	"locks"

	"github.com/pglock-toolkit/pglock/pglock"
)

func keys(id int64) []pglock.Key {
	return []pglock.Key{
		locks.Invoice(id),
		pglock.Int64Key(id),                          // want `Int64Key makes a key of a bare number`
		pglock.PairKey(1, int32(id)),                 // want `PairKey makes a key of a bare number`
		pglock.NewKey("invoice:" + fmt.Sprint(id)),   // want `NewKey makes a name by hand that begins with "invoice:"`
		pglock.NewKey(fmt.Sprintf("invoice:%d", id)), // want `begins with "invoice:"`
		pglock.NewKey("nightly-report"),              // want `begins with "nightly-report"`
		pglock.NewKey("nightly-report-2"),
		pglock.NewKey("other:" + fmt.Sprint(id)),
		pglock.NewKey(fmt.Sprint(id)),
	}
}
