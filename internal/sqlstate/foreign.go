package sqlstate

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// ToPgx returns err. If it is a server's error from a driver other than pgx, the result also matches *pgconn.PgError.
func ToPgx(err error) error {
	var state interface{ SQLState() string }
	if err == nil || errors.As(err, new(*pgconn.PgError)) || !errors.As(err, &state) {
		return err
	}
	return &foreign{err, &pgconn.PgError{Code: state.SQLState(), Message: err.Error()}}
}

// FromPgx undoes [ToPgx], unless err has been wrapped since.
func FromPgx(err error) error {
	if f, ok := err.(*foreign); ok {
		return f.error
	}
	return err
}

type foreign struct {
	error
	as *pgconn.PgError
}

func (e *foreign) Unwrap() []error { return []error{e.error, e.as} }
