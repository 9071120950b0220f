package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// The flags name the same server as those that were given, but never a password.
func TestTheFlagsOfACopiedCommandNameTheServerWithoutAPassword(t *testing.T) {
	for _, test := range []struct {
		given []string
		want  string
	}{
		{nil, ""},
		{[]string{"-d", "shop"}, " -d shop"},
		{[]string{"-d", "postgres://app@db1:5433/shop?sslmode=require"}, " -d 'postgres://app@db1:5433/shop?sslmode=require'"},
		{[]string{"-d", "postgres://app:s3cret@db1:5433/shop"}, " -d postgres://app@db1:5433/shop"},
		{[]string{"-d", "postgres://app@db1:5433/shop?password=s3cret"}, " -d postgres://app@db1:5433/shop"},
		{[]string{"-d", "host=db1 user=app password=s3cret dbname='my shop'"}, " -d postgres://app@db1:5432/my%20shop"},
		{[]string{"-d", "shop", "--trust-owner", "migrator", "--trust-owner", "the DBA"}, " -d shop --trust-owner migrator --trust-owner 'the DBA'"},
		{[]string{"--trust-owner", "migrator"}, " --trust-owner migrator"},
	} {
		var d dsn
		cmd := &cobra.Command{Use: "terminate"}
		d.addTo(cmd.Flags())
		if err := cmd.ParseFlags(test.given); err != nil {
			t.Fatal(err)
		}
		db, err := d.resolve(cmd)
		if err != nil || db.flags != test.want {
			t.Errorf("%q: %q, %v; want %q", test.given, db.flags, err, test.want)
		}
	}
}
