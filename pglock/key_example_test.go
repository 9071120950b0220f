package pglock_test

import (
	"errors"
	"fmt"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Names are for people; the number is what PostgreSQL locks.
func ExampleNewKey() {
	key := pglock.NewKey("invoice:42")
	fmt.Println(key)
	fmt.Println(key.Int64())
	// Output:
	// invoice:42
	// 6688477336110245193
}

// A flag or a configuration file can name any lock, including those of other programs.
func ExampleParseKey() {
	for _, text := range []string{"invoice:42", "@6688477336110245193", "@7/-42", "@@home", "@home"} {
		key, err := pglock.ParseKey(text)
		if err != nil {
			fmt.Println(text, "is refused:", errors.Is(err, pglock.ErrInvalidKey))
			continue
		}
		fmt.Printf("%s is number %d, name %q\n", key, key.Int64(), key.Name())
	}
	// Output:
	// invoice:42 is number 6688477336110245193, name "invoice:42"
	// @6688477336110245193 is number 6688477336110245193, name ""
	// @7/-42 is number 34359738326, name ""
	// @@home is number 1057887425868724802, name "@home"
	// @home is refused: true
}

// Keys are equal when they are the same lock. Use ID as a map key.
func ExampleKey_Equal() {
	named, raw := pglock.NewKey("invoice:42"), pglock.Int64Key(6688477336110245193)
	fmt.Println(named.Equal(raw))
	fmt.Println(pglock.PairKey(0, 1).Equal(pglock.Int64Key(1)))

	holders := map[pglock.KeyID]string{named.ID(): "checkout"}
	fmt.Println(holders[raw.ID()])
	// Output:
	// true
	// false
	// checkout
}
