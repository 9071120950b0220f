package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/trust"
)

// excess reports rights on schema pglock with which roles could do harm. They are reported even if nothing was done
// with them yet. A schema of a role that is not trusted is not used, whatever the rights on it are.
func excess(f facts) []Finding {
	const check = "schema-rights"
	var all []Finding
	if given := f.schema.excess; len(given) > 0 && len(f.schema.owners.untrusted) == 0 {
		all = append(all, Finding{
			Check: check, Level: Problem,
			What: "rights on schema pglock that pglock does not grant: " + summary(given),
			Why: "with TRIGGER, REFERENCES or CREATE a role can have its code run as the owner of the schema, and of those who use " +
				"it; with the others it can change what is recorded, such as fencing tokens",
			Do:  "run as the owner of the schema: pglock migrate up (which takes away all such rights), or",
			SQL: revocations(given),
		})
	}
	if given := f.schema.defaults; len(given) > 0 {
		all = append(all, Finding{
			Check: check, Level: Note,
			What: "ALTER DEFAULT PRIVILEGES gives such rights on what will be made in schema pglock: " + summaryOfDefaults(given),
			Why: "pglock's migrations take them away again when they are done; but where a tool commits each file, roles have " +
				"them in between",
			Do: "have the migrations run by a role without such default privileges, or run pglock migrate up, which is one transaction",
		})
	}
	if all == nil && f.schema.err == nil {
		all = []Finding{{Check: check, Level: OK, What: "roles have only rights on schema pglock that do no harm"}}
	}
	return all
}

// summary lists the rights of each grantee on each object. It names few of them.
func summary(given []trust.Right) string {
	var lines lines
	for _, r := range given {
		lines.add(r.Grantee+" has ", r.Privilege, " on "+r.Object)
	}
	return lines.text()
}

func summaryOfDefaults(given []trust.DefaultRight) string {
	var lines lines
	for _, r := range given {
		lines.add(r.Grantee+" has ", r.Privilege, fmt.Sprintf(" on all %s of role %s", strings.ToLower(r.Kind), r.Maker))
	}
	return lines.text()
}

// lines are sentences that differ in one word, so that each is written once with all its words.
type lines struct {
	order [][2]string
	words map[[2]string][]string
}

func (l *lines) add(before, word, after string) {
	line := [2]string{before, after}
	if !slices.Contains(l.order, line) {
		l.order = append(l.order, line)
	}
	if l.words == nil {
		l.words = map[[2]string][]string{}
	}
	l.words[line] = append(l.words[line], word)
}

// text names few lines.
func (l *lines) text() string {
	const most = 3
	var all []string
	for i, line := range l.order {
		if i == most {
			all = append(all, "and others")
			break
		}
		all = append(all, line[0]+enumerate(l.words[line])+line[1])
	}
	return strings.Join(all, "; ")
}

func revocations(given []trust.Right) (all []string) {
	for _, r := range given {
		all = append(all, fmt.Sprintf("REVOKE %s ON %s FROM %s CASCADE", r.Privilege, r.Object, r.Grantee))
	}
	return all
}
