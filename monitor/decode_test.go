package monitor

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

func TestDecode(t *testing.T) {
	cases := []struct {
		classid, objid uint32
		objsubid       int16
		number         int64
		class, object  int32
		space          string
		text           string
	}{
		{0, 7, 1, 7, 0, 7, spaceBigint, "@7"},
		{0xffffffff, 0xffffffff, 1, -1, -1, -1, spaceBigint, "@-1"},
		{0x80000000, 0, 1, -1 << 63, -1 << 31, 0, spaceBigint, "@-9223372036854775808"},
		{0, 7, 2, 7, 0, 7, spacePair, "@0/7"},
		{7, 0xffffffd6, 2, 7<<32 | 0xffffffd6, 7, -42, spacePair, "@7/-42"},
		// Citus: a class of locks in objsubid, a shard in the two halves.
		{5, 102008, 4, 5<<32 | 102008, 5, 102008, spaceOther, "@5/102008#4"},
		{0x80000000, 1, 16, -1<<63 | 1, -1 << 31, 1, spaceOther, "@-2147483648/1#16"},
		{0, 0, 0, 0, 0, 0, spaceOther, "@0/0#0"},
	}
	for _, c := range cases {
		id := identify(oid(5), oid(c.classid), oid(c.objid), pgtype.Int2{Int16: c.objsubid, Valid: true})
		if want := (identity{database: 5, objsubid: c.objsubid, number: c.number}); id != want {
			t.Errorf("%s: identity %+v, want %+v", c.text, id, want)
		}
		class, object := id.halves()
		if class != c.class || object != c.object || id.space() != c.space || id.text(nil) != c.text {
			t.Errorf("got class %d, object %d, space %s, text %s; want %+v", class, object, id.space(), id.text(nil), c)
		}
	}
}

func oid(n uint32) pgtype.Uint32 { return pgtype.Uint32{Uint32: n, Valid: true} }

func TestDecodeLockModesConflictBothWays(t *testing.T) {
	for _, a := range modes {
		for _, b := range modes {
			if conflict(a, b) != conflict(b, a) {
				t.Errorf("%s and %s conflict one way", a, b)
			}
		}
	}
	if conflict(modeShared, modeShared) || !conflict(modeShared, modeExclusive) || !conflict(modeExclusive, modeExclusive) {
		t.Error("the modes of advisory locks conflict wrongly")
	}
	if conflict("unheard of", modeExclusive) {
		t.Error("an unknown mode conflicts")
	}
}

// The locks can change between reading them and reading the blockers.
func TestDecodeBlockersOfAMomentLater(t *testing.T) {
	holders := []Holder{
		{Session: Session{PID: 10}, Mode: modeShared},
		{Session: Session{PID: 10}, Mode: modeExclusive},
		{Session: Session{PID: 20}, Mode: modeShared},
		{Session: Session{GID: "g"}, Mode: modeShared},
	}
	cases := []struct {
		name    string
		mode    string
		holders []Holder
		pids    []int32
		want    []Blocker
	}{
		{"granted in between", modeExclusive, holders, nil, []Blocker{}},
		{"holders, one of them in two modes", modeExclusive, holders, []int32{20, 10, 0},
			[]Blocker{{PID: 0, GID: "g", Kind: blockHard}, {PID: 10, Kind: blockHard}, {PID: 20, Kind: blockHard}}},
		{"a compatible holder that waits ahead for more", modeShared, holders, []int32{20, 10},
			[]Blocker{{PID: 10, Kind: blockHard}}},
		{"a session that is not in the snapshot", modeShared, holders, []int32{98}, []Blocker{}},
		{"parallel workers of one session", modeExclusive, holders, []int32{20, 20, 99, 20},
			[]Blocker{{PID: 20, Kind: blockHard}}},
		{"only ahead", modeShared, holders[2:], []int32{99, 20}, []Blocker{{PID: 20, Kind: blockSoft}, {PID: 99, Kind: blockSoft}}},
		{"two prepared transactions that have ended", modeExclusive, nil, []int32{0, 0}, []Blocker{}},
	}
	all := parties{byOwner: map[string]*party{"10": {}, "20": {}, "99": {}}}
	for _, c := range cases {
		if got, _ := all.blockers(Waiter{Mode: c.mode}, c.holders, c.pids); got == nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestDecodeClientsAreWrittenWithTheirPort(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")
	for want, address := range map[string]*netip.Addr{"192.0.2.7:49152": &v4, "[2001:db8::7]:49152": &v6, "[local]": nil} {
		if got := client(address, pgtype.Int4{Int32: 49152, Valid: true}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDecodeNames(t *testing.T) {
	// Keys have zero bytes, names have none.
	list := "\x00\x00\x00\x00\x00\x00\x00\x07b\x00" + "\x00\x00\x00\x00\x00\x00\x00\x07a\x00" + "\xff\xff\xff\xff\xff\xff\xff\x00é"
	got, err := decodeNames([]byte(list))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !slices.Equal(got[7], []string{"a", "b"}) || !slices.Equal(got[-256], []string{"é"}) {
		t.Errorf("got %v", got)
	}
	if _, err := decodeNames(nil); err != nil {
		t.Errorf("no names: %v", err)
	}
	if _, err := decodeNames([]byte(list + "\x00\x00")); err == nil {
		t.Error("a truncated list is accepted")
	}
}
