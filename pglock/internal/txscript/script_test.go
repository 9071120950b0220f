package txscript

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

type recorder struct {
	sql  string
	args []any
}

func (r *recorder) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	r.sql, r.args = sql, args
	return pgconn.NewCommandTag("SELECT 3"), nil
}

type runner struct{ recorder }

func (*runner) RunScript(_ context.Context, s *Script, args []any) (int64, error) {
	return int64(len(s.Statements) + len(args)), nil
}

func TestScriptIsOneMessageWhoseParametersAreCountedOn(t *testing.T) {
	s := New("SELECT $2, $1", "DO $x$ BEGIN END $x$", "SELECT $1, $1")
	if want := []Statement{{"SELECT $2, $1", 2}, {"DO $x$ BEGIN END $x$", 0}, {"SELECT $1, $1", 1}}; !slices.Equal(s.Statements, want) {
		t.Errorf("the statements are %v", s.Statements)
	}
	var h recorder
	rows, err := s.Run(t.Context(), &h, "a", "b", "c")
	if rows != 3 || err != nil {
		t.Errorf("Run = %d, %v", rows, err)
	}
	if want := "SELECT $2, $1;\nDO $x$ BEGIN END $x$;\nSELECT $3, $3"; h.sql != want {
		t.Errorf("the message is %q", h.sql)
	}
	if want := []any{pgx.QueryExecModeSimpleProtocol, "a", "b", "c"}; !slices.Equal(h.args, want) {
		t.Errorf("the arguments are %v", h.args)
	}
}

func TestScriptIsRunByARunner(t *testing.T) {
	if rows, err := New("SELECT 1").Run(t.Context(), &runner{}, 1, 2); rows != 3 || err != nil {
		t.Errorf("Run = %d, %v", rows, err)
	}
}
