package lockkeys

import (
	"testing"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func TestSemaphoreKeysAreReadBack(t *testing.T) {
	seen := map[driver.KeyID]string{}
	for name, key := range map[string]driver.KeyID{
		"a small number": {Space: driver.SpaceBigint, Number: 7}, "its neighbour": {Space: driver.SpaceBigint, Number: 8},
		"the pair of that number": {Space: driver.SpacePair, Number: 7}, "a negative one": {Space: driver.SpaceBigint, Number: -7},
		"a hash": {Space: driver.SpaceBigint, Number: 6688477336110245193}, "a pair": driver.PairID(7, -42), "its class": driver.PairID(8, -42),
	} {
		id := Semaphore(key)
		for _, slot := range []int{0, 1, MaxSlots} {
			made := id.Key(slot)
			gotID, gotSlot, ok := ParseSemaphore(made)
			if !ok || gotID != id || gotSlot != slot || IsMark(made) {
				t.Errorf("%s, slot %d: read back as %v, %v, %v", name, slot, gotID, gotSlot, ok)
			}
			if other, twice := seen[made]; twice {
				t.Errorf("%s and %s share a slot", name, other)
			}
			seen[made] = name
		}
		for _, mark := range []driver.KeyID{LeaderMark.Of(key), TickMark.Of(key)} {
			if _, _, ok := ParseSemaphore(mark); ok || !IsMark(mark) {
				t.Errorf("%s: a mark is parsed as a slot", name)
			}
			if other, twice := seen[mark]; twice {
				t.Errorf("%s and %s share a mark", name, other)
			}
			seen[mark] = name
		}
	}
	for _, key := range []driver.KeyID{{}, {Space: driver.SpaceBigint, Number: Semaphore(driver.KeyID{}).Key(1).Number}, driver.PairID(IdentityClass, 5), driver.PairID(-1, -1)} {
		if _, _, ok := ParseSemaphore(key); ok || IsMark(key) {
			t.Errorf("%v is parsed as a key of a primitive", key)
		}
	}
}

// TestSemaphoreKeysDoNotChange: processes of different versions must agree.
func TestSemaphoreKeysDoNotChange(t *testing.T) {
	hash := driver.KeyID{Space: driver.SpaceBigint, Number: 6688477336110245193} // "invoice:42"
	for name, got := range map[string]driver.KeyID{
		"slot": Semaphore(hash).Key(3), "mark": LeaderMark.Of(hash), "tick": TickMark.Of(hash), "pair": Semaphore(driver.PairID(7, -42)).Key(0),
	} {
		want := map[string][2]int32{"slot": {1886598125, 1886003203}, "mark": {1886142131, 991590811}, "tick": {1886666419, 991590811}, "pair": {1886617600, 167936}}[name]
		if class, object, _ := got.Pair(); class != want[0] || object != want[1] {
			t.Errorf("%s: (%d, %d), want %v", name, class, object, want)
		}
	}
}

func TestSemaphoreNamesAreReadBack(t *testing.T) {
	key, limit, ok := ParseSemaphoreName(SemaphoreName("a:b:10", 12))
	if key != "a:b:10" || limit != 12 || !ok {
		t.Errorf("read back as %q, %d, %v", key, limit, ok)
	}
	for _, name := range []string{"", "a", "pglock:semaphore:", "pglock:semaphore:x:a", "pglock:semaphore:0:a", "pglock:semaphore:4096:a"} {
		if _, _, ok := ParseSemaphoreName(name); ok {
			t.Errorf("%q is parsed as the name of a semaphore", name)
		}
	}
}
