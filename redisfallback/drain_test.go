package redisfallback

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func TestLockThatIsGrantedAfterCloseIsReleased(t *testing.T) {
	server := testenv.NewRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}()
	b := newBackend([]redis.UniversalClient{client}, config{prefix: defaultKeyPrefix})
	must.Succeed(t, b.Start(driver.Config{Lease: time.Minute, Logger: slog.New(slog.DiscardHandler)}))
	must.Succeed(t, b.Close(t.Context()))
	r := driver.Request{
		Key:   driver.Key{KeyID: driver.KeyID{Space: driver.SpaceBigint}, Name: "a", Named: true},
		Token: text("AAAAAAAAAAAAAAAAAAAAAAAAAA-1"), LossHandler: unlost{t},
	}
	if _, err := b.Acquire(t.Context(), r); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("the error is %v, want ErrClosed", err)
	}
	if left := testenv.AskRedis(t, server, "DBSIZE"); left != "0" {
		t.Errorf("%s keys are left", left)
	}
}

type unlost struct{ *testing.T }

// Lost implements [driver.LossHandler].
func (t unlost) Lost(_ driver.LostReason, err error) { t.Errorf("the lock was lost: %v", err) }
