package migrations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
)

// readVersion reads the record of the version in a savepoint, which ends the settings.
func (s schema) readVersion(ctx context.Context, tx pgx.Tx) (int, error) {
	var rows head
	err := rolledBack(ctx, tx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockdb.SetNoRowSecurity+";"+lockdb.BoundCopyOfVersion, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		_, err := tx.Conn().PgConn().CopyTo(ctx, &rows, lockdb.CopyVersion)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read the version of schema pglock: %w", err)
	}
	version, dirty, err := parseVersion(rows.text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("pglock.schema_migrations in database %q %w", s.Database, err)
	case dirty:
		return 0, fmt.Errorf("pglock.schema_migrations in database %q is marked dirty at version %d, which only "+
			"another tool can have done: finish what it began, then set dirty to false", s.Database, version)
	}
	return version, nil
}

func rolledBack(ctx context.Context, tx pgx.Tx, do func(pgx.Tx) error) error {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if err := do(savepoint); err != nil {
		_ = savepoint.Rollback(ctx) // the first error says more
		return err
	}
	return savepoint.Rollback(ctx)
}

// head keeps the beginning of what is written to it: the record is one row.
type head struct{ text []byte }

func (h *head) Write(p []byte) (int, error) {
	const most = 1 << 16
	h.text = append(h.text, p[:min(len(p), most-len(h.text))]...)
	return len(p), nil
}

// parseVersion returns the largest version in the text form of COPY.
func parseVersion(text []byte) (version int, dirty bool, err error) {
	found := false
	for line := range bytes.Lines(text) {
		number, flag, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte("\t"))
		n, err := strconv.Atoi(string(number))
		if err != nil {
			return 0, false, fmt.Errorf("has a version that is no number: %w", err)
		}
		if !found || n > version {
			version, dirty, found = n, string(flag) == "t", true
		}
	}
	if !found {
		return 0, false, errors.New("is empty")
	}
	return version, dirty, nil
}
