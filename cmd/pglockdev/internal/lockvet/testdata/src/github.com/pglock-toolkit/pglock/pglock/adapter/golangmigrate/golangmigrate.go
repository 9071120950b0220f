// Package golangmigrate declares what the tests need of the real package.
package golangmigrate

import (
	"context"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
)

func NativeWait(time.Duration) pglock.Option { return pglock.Option{} }

func Open(context.Context, *pglock.Locker, pglock.Key, func(), ...pglock.Option) error { return nil }
