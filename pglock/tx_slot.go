package pglock

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/internal/bridge"
)

// queued is the result of the statement TrySlotTx if others wait for a slot.
const queued txOutcome = "queued"

// trySlotTx takes one of the slots of a semaphore if one is free and no others wait. The keys of the slots follow gate.
func trySlotTx(ctx context.Context, tx pgx.Tx, key, gate Key, slots int, opts []TxOption) (bridge.SlotTx, error) {
	c, err := newTxConfig(opts)
	if err != nil {
		return 0, err
	}
	if err := checkTx(tx, key); err != nil {
		return 0, failed("acquire a permit of", key, 0, err)
	}
	asked := ask(false, key)
	class, object, _ := gate.Pair()
	outcome, err := lockdb.New(oneRoundTrip{tx}).TrySlotTx(ctx, lockdb.TrySlotTxParams{
		AllowStandby: c.allowStandby, AllowStale: c.allowStale,
		Class: class, Gate: object, First: object + 1, Last: object + int32(slots),
	})
	switch {
	case err == nil && txOutcome(outcome) == queued:
		return bridge.SlotQueued, nil
	case err == nil && txOutcome(outcome) == held:
		return bridge.SlotsHeld, nil
	}
	return bridge.SlotGranted, asked.result(ctx, txOutcome(outcome), err)
}

// slotHoldersTx returns the holders of the slots.
func slotHoldersTx(ctx context.Context, tx pgx.Tx, gate Key, slots int) ([]Holder, error) {
	class, object, _ := gate.Pair()
	keys := make([]Key, slots)
	for i := range keys {
		keys[i] = PairKey(class, object+int32(i)+1)
	}
	return holdersTx(ctx, tx, keys)
}
