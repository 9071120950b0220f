package migrations_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
)

func ExampleUp() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	if err := migrations.Up(ctx, pool); err != nil { // any number of processes may do this at once
		log.Fatal(err)
	}
	version, err := migrations.Version(ctx, pool)
	fmt.Println(version == migrations.Latest(), err)
	fmt.Println(migrations.Down(ctx, pool))
	// Output:
	// true <nil>
	// <nil>
}
