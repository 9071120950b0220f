package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
)

// enter returns tx in the form that package pglock takes, if it is in a transaction.
func enter(ctx context.Context, tx Tx) (*transaction, error) {
	tx = embedded(tx)
	if isNil(tx) {
		return nil, errors.New("the transaction is nil")
	}
	on := &transaction{tx: tx}
	if _, is := tx.(*sql.Tx); is {
		return on, nil
	}
	// A savepoint needs a transaction. It is released at once, and costs no transaction ID.
	_, err := on.rows(ctx, lockdb.Savepoint, nil)
	if sqlstate.Of(err) == sqlstate.NoActiveTransaction {
		return nil, fmt.Errorf("%w: the %T is outside a transaction, so the lock would be free at once "+
			"(begin a transaction, and pass it): %w", ErrNoTransaction, tx, err)
	}
	if err == nil {
		_, err = on.rows(ctx, lockdb.ReleaseSavepoint, nil)
	}
	if err = sqlstate.Explain(sqlstate.EndedBy(ctx, err)); err != nil {
		return nil, fmt.Errorf("ask whether the %T is in a transaction: %w", tx, err)
	}
	return on, nil
}

// embedded returns the handle of database/sql that the struct tx embeds, as the handles of sqlx and bun do, or else tx
// itself. bun's own QueryContext has another syntax for arguments.
func embedded(tx Tx) Tx {
	v := reflect.ValueOf(tx)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return tx
	}
	for i := range v.NumField() {
		switch field := v.Type().Field(i); {
		case !field.Anonymous || !field.IsExported():
		case field.Type == reflect.TypeFor[*sql.Tx](), field.Type == reflect.TypeFor[*sql.Conn](), field.Type == reflect.TypeFor[*sql.DB]():
			return v.Field(i).Interface().(Tx)
		}
	}
	return tx
}

func isNil(tx Tx) bool {
	v := reflect.ValueOf(tx)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
