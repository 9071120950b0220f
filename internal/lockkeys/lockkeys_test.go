package lockkeys_test

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The hashes come from PostgreSQL; see TestTagHashIsTheServers.
func TestTagHashVectors(t *testing.T) {
	for _, v := range []struct {
		database    uint32
		id          driver.KeyID
		little, big uint32
	}{
		{5, driver.PairID(lockkeys.IdentityClass, 1), 0x2c8ebd74, 0x3103932b},
		{16384, driver.PairID(-1, -42), 0x8dd4fe7e, 0x5f1c0f00},
		{4294967295, driver.PairID(-1<<31, 1<<31-1), 0xb46d6d4a, 0x5d4d841f},
		{16384, driver.KeyID{Space: driver.SpaceBigint, Number: 6688477336110245193}, 0x113dc047, 0x386c0d75},
		{1, driver.KeyID{Space: driver.SpaceBigint, Number: -1}, 0x5a3ce877, 0x68186b41},
	} {
		little, big := lockkeys.TagHashes(v.database, v.id)
		if little != v.little || big != v.big {
			t.Errorf("%d, %v: %#08x, %#08x, want %#08x, %#08x", v.database, v.id, little, big, v.little, v.big)
		}
	}
}

// PostgreSQL's uuid_hash applies hash_bytes to the 16 bytes of a uuid, as its lock table does to those of a lock tag.
// hash_bytes reads words, so a big-endian server gets the same hash of the same words; only the last word of the tag is
// composed differently there.
func TestTagHashIsTheServers(t *testing.T) {
	conn := testenv.Database(t).Connect(t)
	serverHash := func(words [4]uint32) (hash int32) {
		var tag [16]byte
		for i, word := range words {
			binary.NativeEndian.PutUint32(tag[4*i:], word) // the server runs on this machine
		}
		err := conn.QueryRow(t.Context(), "select uuid_hash($1::text::uuid)", hex.EncodeToString(tag[:])).Scan(&hash)
		must.Succeed(t, err)
		return hash
	}
	for range 100 {
		id := driver.KeyID{Space: driver.SpaceBigint + driver.Space(rand.IntN(2)), Number: int64(rand.Uint64())}
		database := rand.Uint32()
		little, big := lockkeys.TagHashes(database, id)
		words := [4]uint32{database, uint32(uint64(id.Number) >> 32), uint32(id.Number)}
		// {uint16 space, uint8 10, uint8 2} read as one word.
		words[3] = uint32(id.Space) | 10<<16 | 2<<24
		if got := serverHash(words); uint32(got) != little {
			t.Fatalf("%d, %v: %#08x, the server computes %#08x", database, id, little, uint32(got))
		}
		words[3] = uint32(id.Space)<<16 | 10<<8 | 2
		if got := serverHash(words); uint32(got) != big {
			t.Fatalf("%d, %v: %#08x, the server computes %#08x", database, id, big, uint32(got))
		}
	}
}

func TestNewIdentitiesAreFreedFirst(t *testing.T) {
	seen := map[int32]bool{}
	for range 50 {
		object := lockkeys.NewIdentity(16384)
		little, big := lockkeys.TagHashes(16384, driver.PairID(lockkeys.IdentityClass, object))
		if object <= 0 || little%256 != 0 || big%256 != 0 {
			t.Errorf("%d has the hashes %#08x and %#08x", object, little, big)
		}
		seen[object] = true
	}
	if len(seen) < 45 {
		t.Errorf("of 50 identities %d are different", len(seen))
	}
}

func TestCompanionsDiffer(t *testing.T) {
	keys := []driver.KeyID{{Space: driver.SpaceBigint, Number: 7}, {Space: driver.SpaceBigint, Number: 8}, {Space: driver.SpacePair, Number: 7}}
	seen := map[int64]bool{}
	for _, key := range keys {
		seen[lockkeys.Companion(key, false)], seen[lockkeys.Companion(key, true)] = true, true
	}
	if len(seen) != 2*len(keys) {
		t.Errorf("%d keys have %d companions, want two each", len(keys), len(seen))
	}
}
