package postgres

import (
	"fmt"
	"strings"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// errNoFence is the answer of a statement that looked for the fencing sequence and found none.
var errNoFence = fmt.Errorf("%w: there is no sequence pglock.fence (install it with: pglock migrate up)",
	driver.ErrSchemaMissing)

// namesText writes names as a text[] in text form.
func namesText(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}
