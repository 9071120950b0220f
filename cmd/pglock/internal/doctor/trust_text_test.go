package doctor

import (
	"slices"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/trust"
)

func TestNoRoleIsCalledTrustedAndNotTrusted(t *testing.T) {
	const privileged = " may grant a role (ADMIN OPTION)"
	for _, c := range []struct {
		role, named string
		owners      trust.Roles
		want        string
	}{
		{"postgres", "", trust.Roles{DatabaseOwner: "postgres", Login: "postgres", RoleItself: true, SuperuserOwns: true},
			`the role "postgres" and superusers`},
		{"admin", "", trust.Roles{DatabaseOwner: "admin", Login: "admin", RoleItself: true},
			`the role "admin" and superusers`},
		{"postgres", "tenant", trust.Roles{DatabaseOwner: "tenant", Login: "postgres", RoleItself: true},
			`the role "postgres", superusers and "tenant" (named)`},
		{"postgres", "", trust.Roles{DatabaseOwner: "tenant", Login: "postgres", RoleItself: true, Outside: privileged[1:]},
			`the role "postgres" and superusers; the database's owner "tenant" is not trusted, because "postgres"` + privileged},
		{"app", "", trust.Roles{DatabaseOwner: "tenant", Login: "postgres", Outside: privileged[1:]},
			`superusers; the role "app" is not trusted, because its code could take the rights of "postgres", which has logged in; ` +
				`the database's owner "tenant" is not trusted, because "app" or "postgres", which has logged in,` + privileged},
		{"app", "", trust.Roles{DatabaseOwner: "dba", Login: "app", RoleItself: true, Members: "dba, ops"},
			`the role "app", superusers and members of the role (dba, ops)`},
		{"app", "migrator", trust.Roles{DatabaseOwner: "tenant", Login: "app", RoleItself: true},
			`the role "app", superusers, "migrator" (named) and the database's owner "tenant" (but not to the monitor)`},
	} {
		f := facts{connection: monitordb.ConnectionRow{Role: c.role}}
		f.schema.owners.Roles = c.owners
		if c.named != "" {
			f.schema.owners.named = []string{c.named}
		}
		if got := f.trusted(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestWhatBelongsToRolesThatAreNotTrusted(t *testing.T) {
	of := func(owner string, objects ...string) (found []trust.Finding) {
		for _, object := range objects {
			found = append(found, trust.Finding{Object: object, Owner: owner})
		}
		return found
	}
	got := belongings(slices.Concat(
		of("migrator", "schema pglock", "function pglock.key(text)", "index pg_toast.pg_toast_1_index", "table pglock.names"),
		of("tenant", "function trap.spring()"),
		of("migrator", "toast table pg_toast.pg_toast_1", "view pglock.locks"),
		of("other", "table x", "type x")))
	want := []string{
		`schema pglock and at least 3 other objects belong to role "migrator", which is not trusted`,
		`function trap.spring() belongs to role "tenant", which is not trusted`,
		`table x and type x belong to role "other", which is not trusted`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
