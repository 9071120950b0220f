package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()
	locker, err := redisfallback.New(client)
	if err != nil {
		return err
	}
	defer locker.Close(context.Background())
	if err := locker.Ping(ctx); err != nil {
		return err
	}
	return locker.Do(ctx, pglock.NewKey("nightly-report"), func(ctx context.Context, lock *pglock.Lock) error {
		fmt.Println(lock.Key(), "is held until this returns; ctx ends if it is lost")
		return nil
	})
}
