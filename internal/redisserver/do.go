package redisserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Do sends one command on a new connection, and returns the reply if it is a text or a number. It is for commands to the
// server itself; tests that use Redis have a client.
func (s *Server) Do(args ...string) (reply string, err error) {
	const timeout = 5 * time.Second
	client := redis.NewClient(&redis.Options{
		Addr: s.Addr(), PoolSize: 1, MaxRetries: -1, DisableIdentity: true,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
	})
	defer func() { err = errors.Join(err, client.Close()) }()
	words := make([]any, len(args))
	for i, arg := range args {
		words[i] = arg
	}
	result, err := client.Do(context.Background(), words...).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprint(result), nil
}
