package redisfallback

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

var recordTick = load("tick", 1)

// RecordRun implements [runstore.Store] for one node. A job's runs are one sorted set without expiry. A failover that
// loses the latest of them repeats those runs.
func (b *backend) RecordRun(ctx context.Context, r runstore.Request) (runstore.State, error) {
	if b.redlock() {
		return runstore.State{}, fmt.Errorf("%w on Redlock: a record on a majority of servers that lose data one by one "+
			"would not be kept", driver.ErrUnsupported)
	}
	key := tags()[slotOf(r.Job)] + "ticks:" + b.prefix + r.Job
	calls := b.calls(recordTick, []string{key}, r.Due.UnixMicro(), string(r.Step), r.Keep.Microseconds(), r.Newest)
	t, err := b.round(ctx, calls)
	if err == nil {
		err = t.result(driver.ErrUnavailable)
	}
	if err != nil {
		return runstore.State{}, err
	}
	return tickState(calls[0].value)
}

// tickState decodes the reply of the script.
func tickState(value any) (state runstore.State, err error) {
	reply, ok := value.([]any)
	if !ok || len(reply) < 3 {
		return state, fmt.Errorf("the script tick returned a %T", value)
	}
	state.Done = reply[2] == int64(1)
	if state.At, err = micros(reply[1]); err != nil {
		return state, err
	}
	for _, due := range reply[3:] {
		at, err := micros(due)
		if err != nil {
			return state, err
		}
		state.Dues = append(state.Dues, at)
	}
	return state, nil
}

// micros reads microseconds since 1970.
func micros(value any) (time.Time, error) {
	text, ok := value.(string)
	if !ok {
		return time.Time{}, fmt.Errorf("a time is a %T", value)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("a time is %s: %w", shorttext.Quote(text), err)
	}
	return time.UnixMicro(n).UTC(), nil
}
