package sqlcomment_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/sqlcomment"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, tags := range []map[string]string{
		{},
		{"action": "pay", "key": "invoice:42"},
		{"controller": "it's", "x.y-z_": "*/ DROP TABLE t; /*"},
		{"route": "/a b?c=d&e='f'\\", "empty": ""},
	} {
		statement := sqlcomment.Write(tags) + "SELECT 1"
		if got := sqlcomment.Read(statement); !maps.Equal(got, tags) {
			t.Errorf("%s is read as %v, want %v", statement, got, tags)
		}
	}
}

func TestACommentIsNotLongerThanTheServerShows(t *testing.T) {
	tags := map[string]string{}
	for _, name := range "abcdefghijklmnopqrstuvwxyz" {
		tags[string(name)] = strings.Repeat("x", 1000)
	}
	const shown = 1023 // track_activity_query_size - 1
	if comment := sqlcomment.Write(tags); len(comment) > shown || len(sqlcomment.Read(comment)) == 0 {
		t.Errorf("the comment has %d bytes and %d tags", len(comment), len(sqlcomment.Read(comment)))
	}
}
