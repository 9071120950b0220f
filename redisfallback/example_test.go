package redisfallback_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

func ExampleNew() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	locker, err := redisfallback.New(client)
	if err != nil {
		log.Fatal(err)
	}
	err = locker.Do(ctx, pglock.NewKey("nightly-report"), func(ctx context.Context, lock *pglock.Lock) error {
		return nil // do the work; ctx ends when the lock does
	})
	if err != nil {
		log.Print(err)
	}
	if err := locker.Close(ctx); err != nil { // before the client, which the caller keeps
		log.Print(err)
	}
	if err := client.Close(); err != nil {
		log.Print(err)
	}
}

// With bare names, redis-py's Lock("invoice:42") and this lock exclude each other.
func ExampleWithKeyPrefix() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	backend, err := redisfallback.NewBackend([]redis.UniversalClient{client}, redisfallback.WithKeyPrefix(""))
	if err != nil {
		log.Fatal(err)
	}
	locker, err := pglock.NewWithBackend(backend)
	if err != nil {
		log.Fatal(err)
	}
	lock, err := locker.Lock(context.Background(), pglock.NewKey("invoice:42"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := lock.Unlock(context.Background()); err != nil {
			log.Print(err)
		}
	}()
}
