package monitor_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/monitor"
)

func manyTags(n int) string {
	var tags []string
	for i := range n {
		tags = append(tags, fmt.Sprintf("a%d='1'", i))
	}
	return strings.Join(tags, ",")
}

func TestCodeQueryTagsReadsSqlcommenter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		query string
		want  map[string]string
	}{
		{"SELECT 1", nil},
		{"SELECT 1 /*controller='index',action='show'*/", map[string]string{"controller": "index", "action": "show"}},
		{"/*route='%2Fpolls%201'*/ SELECT 1", map[string]string{"route": "/polls 1"}},
		{`SELECT 1 /* a='it\'s' , b='' */`, map[string]string{"a": "it's", "b": ""}},
		{"SELECT 1 /* a comment */ /*a='1'*/ -- more", map[string]string{"a": "1"}},
		{"SELECT 1 /*a='1'*/ /* not tags */", map[string]string{"a": "1"}},
		{"SELECT 1 /*a='1',b='cut by the serv", nil},
		{"SELECT 1 /*a='1' b='2'*/", nil},
		{"SELECT 1 /*a='%zz'*/", nil},
		{"SELECT 1 /*a b='1'*/", nil},
		{"SELECT 1 /*='1'*/", nil},
		{"SELECT 1 /*a='" + strings.Repeat("x", 600) + "'*/", nil},
		{"SELECT 1 /*" + manyTags(40) + "*/", nil},
	}
	for _, test := range tests {
		if got := monitor.QueryTags(test.query); !maps.Equal(got, test.want) {
			t.Errorf("QueryTags(%q) = %v, want %v", test.query, got, test.want)
		}
	}
}

func TestCodeOfASessionOfPglockIsUnknownWithoutTags(t *testing.T) {
	t.Parallel()
	s := monitor.Session{Query: "SELECT pg_advisory_lock(1)", Process: "1f3a9c42"}
	if code := monitor.CodeOf(s, monitor.CodeSeenWaiting); code.Source != monitor.CodeOwnSession || code.Statement != "" {
		t.Errorf("without tags: %+v", code)
	}
	s.Query += " /*action='pay'*/"
	if code := monitor.CodeOf(s, monitor.CodeSeenWaiting); code.Source != monitor.CodeSeenWaiting || code.Statement != "" ||
		code.Tags["action"] != "pay" {
		t.Errorf("with tags: %+v", code)
	}
	if code := monitor.CodeOf(monitor.Session{}, monitor.CodeSeenWaiting); code != nil {
		t.Errorf("without a statement: %+v", code)
	}
}
