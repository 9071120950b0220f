package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/examples/consumer"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func payments(t *testing.T) *once.Scope {
	t.Helper()
	scope, err := once.New(pglock.NewKey("payments"))
	must.Succeed(t, err)
	return scope
}

// Every message is published three times, and deliveries fail before the handler writes, after it has written, and
// before the acknowledgement. Still each message has its effect once.
func TestConsumerHandlesEachMessageOnce(t *testing.T) {
	pool := testenv.Installed(t).Pool(t)
	_, err := pool.Exec(t.Context(), "create table payments (id text not null)")
	must.Succeed(t, err)

	const messages, copies = 30, 3
	var calls, acknowledged atomic.Int32
	handle := consumer.Once(pool, payments(t), func(ctx context.Context, tx pgx.Tx, msg *message.Message) error {
		n := calls.Add(1)
		if n%5 == 1 {
			return errors.New("failed before it wrote")
		}
		if _, err := tx.Exec(ctx, "insert into payments values ($1)", msg.UUID); err != nil {
			return err
		}
		if n%5 == 2 {
			return errors.New("failed after it wrote")
		}
		return nil
	})
	var deliveries atomic.Int32
	crashing := func(msg *message.Message) error {
		if err := handle(msg); err != nil {
			return err
		}
		if deliveries.Add(1)%4 == 1 {
			return errors.New("failed after the commit")
		}
		acknowledged.Add(1)
		return nil
	}
	queue := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: messages * copies}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: time.Minute}, watermill.NopLogger{})
	must.Succeed(t, err)
	router.AddConsumerHandler("payments", "payments", queue, crashing)
	ended := make(chan error, 1)
	go func() { ended <- router.Run(t.Context()) }()
	<-router.Running()
	for i := range messages * copies {
		msg := message.NewMessage(fmt.Sprintf("payment-%d", i%messages), message.Payload("100"))
		must.Succeed(t, queue.Publish("payments", msg))
	}
	testenv.WaitUntil(t, "all messages are acknowledged", func() bool { return acknowledged.Load() == messages*copies })
	must.Succeed(t, router.Close())
	must.Succeed(t, <-ended)
	must.Succeed(t, queue.Close())

	var total, distinct int
	must.Succeed(t, pool.QueryRow(t.Context(), "select count(*), count(distinct id) from payments").Scan(&total, &distinct))
	if total != messages || distinct != messages {
		t.Errorf("%d payments of %d messages, want %d of each", total, distinct, messages)
	}
	if n := calls.Load(); n <= messages {
		t.Errorf("the handler was called %d times, so nothing failed", n)
	}
}

// Of two messages with one ID and different contents the second is dropped instead of being delivered for ever.
func TestConsumerDropsAnotherMessageWithTheSameID(t *testing.T) {
	pool := testenv.Installed(t).Pool(t)
	called := 0
	handle := consumer.Once(pool, payments(t), func(context.Context, pgx.Tx, *message.Message) error {
		called++
		return nil
	})
	must.Succeed(t, handle(message.NewMessage("a", message.Payload("100"))))
	must.Succeed(t, handle(message.NewMessage("a", message.Payload("999"))))
	if called != 1 {
		t.Errorf("it was handled %d times", called)
	}
}
