package doctor

import (
	"fmt"
	"strings"
)

// trusts reports which owners of schema pglock the role trusts, and which objects belong to others.
func trusts(f facts) Finding {
	const check = "trust"
	owners := f.schema.owners
	who := "trusted to own schema pglock: " + f.trusted()
	if len(owners.untrusted) == 0 {
		return Finding{Check: check, Level: OK, What: who}
	}
	var found []string
	for _, finding := range owners.untrusted {
		found = append(found, fmt.Sprintf("%s belongs to role %s", finding.Object, quote(finding.Owner)))
	}
	return Finding{
		Check: check, Level: Problem,
		What: strings.Join(found, "; ") + "; " + who,
		Why: "their owners can run code with the rights of the roles that use them. pglock does not use them: " +
			"names are only copied, and Fence and WithNames fail with ErrUntrusted",
		Do: "if that role may run code with the rights of this one, name it (--trust-owner, WithTrustedOwner); otherwise " +
			"find out who made these objects, and drop them",
	}
}

// trusted lists the trusted roles, those that are not, and why.
func (f facts) trusted() string {
	owners := f.schema.owners
	all, not := []string{"superusers"}, ""
	if owners.RoleItself {
		all = append([]string{"the role " + quote(f.connection.Role)}, all...)
	} else {
		not = "; not the role " + quote(f.connection.Role) + ", whose code could take the rights of " +
			quote(owners.Login) + ", which has logged in"
	}
	if owners.Members != "" {
		all = append(all, "members of the role ("+owners.Members+")")
	}
	for _, name := range owners.named {
		all = append(all, quote(name)+", which was named")
	}
	if owners.Plain {
		all = append(all, "the database's owner "+quote(owners.DatabaseOwner))
	} else {
		not += "; not the database's owner " + quote(owners.DatabaseOwner) + ", since the role " + quote(f.connection.Role)
		if owners.Login != f.connection.Role {
			not += ", or " + quote(owners.Login) + ", which is the login role,"
		}
		not += " has rights that others could want"
	}
	return strings.Join(all, ", ") + not
}
