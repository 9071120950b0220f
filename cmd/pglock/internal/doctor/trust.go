package doctor

import (
	"fmt"
	"strings"
)

// trusts reports what keeps schema pglock from being used, each with the statement that ends it.
func trusts(f facts) []Finding {
	const check = "trust"
	trusted := []string{"superusers"}
	if f.schema.looked.AsLogin {
		trusted = append(trusted, "the role "+quote(f.connection.Role))
	}
	for _, name := range f.schema.named {
		trusted = append(trusted, quote(name)+" (named)")
	}
	who := "trusted to own schema pglock: " + strings.Join(trusted, ", ")
	if !f.schema.looked.AsLogin {
		who += fmt.Sprintf("; not the role %s, since its code could take the rights of %s, which has logged in",
			quote(f.connection.Role), quote(f.connection.Login))
	}
	if len(f.schema.looked.Findings) == 0 {
		return []Finding{{Check: check, Level: OK, What: who}}
	}
	var all []Finding
	for _, found := range f.schema.looked.Findings {
		finding := Finding{Check: check, Level: Problem, What: found.String(),
			Why: "code of other roles could run with the rights of those that use the schema, or what is recorded could be changed, so " +
				"pglock does not use it: no names are shown, and Fence and WithNames fail with ErrUntrusted; " + who,
			Do: "find out who did that, and end it", SQL: []string{found.Mend}}
		if found.Mend == "" {
			finding.Do, finding.SQL = "if that role's code may run with the rights of this one, name it (--trust-owner, "+
				"WithTrustedOwner); otherwise find out who made the schema, and drop it", nil
		}
		all = append(all, finding)
	}
	return atMost(all, "such findings")
}
