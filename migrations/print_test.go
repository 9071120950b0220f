package migrations_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/migrations"
)

func printFile(t *testing.T, f migrations.File) string {
	t.Helper()
	var text bytes.Buffer
	if err := migrations.PrintFile(&text, f); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestPrintFileWritesWhatComesAfterAVersion(t *testing.T) {
	t.Parallel()
	for _, format := range migrations.Formats() {
		up, from := printFile(t, migrations.File{Format: format}), printFile(t, migrations.File{Format: format, From: 2})
		if !strings.Contains(up, "000001_schema.up.sql") || strings.Contains(up, ".down.sql") {
			t.Errorf("%s: all is not only the way up", format)
		}
		if !strings.Contains(from, "000003_names.up.sql") || strings.Contains(from, "000002_key") {
			t.Errorf("%s: from version 2 it does not begin with version 3", format)
		}
		down := printFile(t, migrations.File{Format: format, From: 2, Down: true})
		last, first := strings.Index(down, "000015_lease_calls.down.sql"), strings.Index(down, "000003_names.down.sql")
		if last < 0 || first < last || strings.Contains(down, "000002_key") {
			t.Errorf("%s: the way back to version 2 is not from the last to the third", format)
		}
	}
}

func TestPrintFileRefusesWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]migrations.File{
		"the latest version": {From: migrations.Latest()}, "a later one": {From: migrations.Latest() + 1, Down: true},
		"an unknown format": {Format: "flyway"},
	} {
		var text bytes.Buffer
		if err := migrations.PrintFile(&text, f); err == nil || text.Len() > 0 {
			t.Errorf("%s: %v, and wrote %q", name, err, text.String())
		}
	}
}
