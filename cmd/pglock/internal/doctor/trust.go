package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/trust"
)

// trusts reports which owners of schema pglock the role trusts, and which objects belong to others.
func trusts(f facts) Finding {
	const check = "trust"
	untrusted := f.schema.owners.untrusted
	who := "trusted to own schema pglock: " + f.trusted()
	switch {
	case f.schema.owners.unchecked != nil:
		return Finding{
			Check: check, Level: Problem, What: f.schema.owners.unchecked.Error(), Why: who + ". " + othersRunCode,
			Do: "find out who made these objects, and drop them",
		}
	case len(untrusted) == 0:
		return Finding{Check: check, Level: OK, What: who}
	}
	return Finding{
		Check: check, Level: Problem,
		What: strings.Join(belongings(untrusted), "; "),
		Why:  who + ". " + othersRunCode,
		Do: "if that role may run code with the rights of this one, name it (--trust-owner, WithTrustedOwner); otherwise " +
			"find out who made these objects, and drop them",
	}
}

const othersRunCode = "Other owners could run code with the rights of the roles that use these objects, so pglock does " +
	"not use them: names are only copied, and Fence and WithNames fail with ErrUntrusted"

// belongings says what belongs to each owner. It names every object of an owner only if there are few.
func belongings(found []trust.Finding) (said []string) {
	var owners []string
	objects := map[string][]string{}
	for _, f := range found {
		if !slices.Contains(owners, f.Owner) {
			owners = append(owners, f.Owner)
		}
		objects[f.Owner] = append(objects[f.Owner], f.Object)
	}
	for _, owner := range owners {
		named := slices.DeleteFunc(slices.Clone(objects[owner]), isTOAST)
		if len(named) == 0 {
			named = objects[owner]
		}
		if others := len(named) - 1; others > 2 { // there may be more than were looked up
			named = []string{named[0], fmt.Sprintf("at least %d other objects", others)}
		}
		verb := "belong"
		if len(named) == 1 {
			verb = "belongs"
		}
		said = append(said, fmt.Sprintf("%s %s to role %s, which is not trusted", enumerate(named), verb, quote(owner)))
	}
	return said
}

// isTOAST reports whether an object is where PostgreSQL keeps long values of a table.
func isTOAST(object string) bool { return strings.Contains(object, " pg_toast.pg_toast_") }

// enumerate returns texts as in "a, b and c".
func enumerate(texts []string) string {
	last := len(texts) - 1
	if last < 1 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

// trusted lists the trusted roles, those that are not, and why.
func (f facts) trusted() string {
	owners, role := f.schema.owners, f.connection.Role
	all, not := []string{"superusers"}, ""
	if owners.RoleItself {
		all = append([]string{"the role " + quote(role)}, all...)
	} else {
		not = fmt.Sprintf("; the role %s is not trusted, because its code could take the rights of %s, which has logged in",
			quote(role), quote(owners.Login))
	}
	if owners.Members != "" {
		all = append(all, "members of the role ("+owners.Members+")")
	}
	for _, name := range owners.named {
		all = append(all, quote(name)+" (named)")
	}
	switch {
	case f.databaseOwnerListed():
	case owners.Outside == "":
		all = append(all, "the database's owner "+quote(owners.DatabaseOwner)+" (but not to the monitor)")
	default:
		privileged := quote(role)
		if owners.Login != role {
			privileged += " or " + quote(owners.Login) + ", which has logged in,"
		}
		not += fmt.Sprintf("; the database's owner %s is not trusted, because %s %s",
			quote(owners.DatabaseOwner), privileged, owners.Outside)
	}
	return enumerate(all) + not
}

// databaseOwnerListed reports whether the owner of the database is among the trusted roles that are listed before it.
func (f facts) databaseOwnerListed() bool {
	owners := f.schema.owners
	return owners.SuperuserOwns || owners.RoleItself && owners.DatabaseOwner == f.connection.Role ||
		slices.Contains(owners.named, owners.DatabaseOwner) ||
		slices.Contains(strings.Split(owners.Members, ", "), owners.DatabaseOwner)
}
