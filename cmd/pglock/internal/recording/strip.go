package recording

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/monitor"
)

// KeptTags are the sqlcommenter tags that are kept if statements are not recorded. They say which code runs, but not with
// which data.
var KeptTags = []string{"action", "application", "controller", "db_driver", "framework", "job", "route", "traceparent"}

// withoutQuery reduces a session's statement to its tags and whether it takes a lock, and marks it as hidden.
func withoutQuery(s *monitor.Session) {
	if s.Query == "" {
		return
	}
	s.Query = tagsOnly(s.Query)
	if !slices.Contains(s.Hidden, "query") {
		s.Hidden = append(slices.Clone(s.Hidden), "query")
	}
}

// lockingStatement replaces a statement that calls a function of advisory locks, so that a journal of the recording knows
// which tags belong to the code that took a lock.
const lockingStatement = "… advisory … "

func tagsOnly(query string) string {
	if !strings.Contains(query, "/*") {
		return ""
	}
	tags := monitor.QueryTags(query)
	var kept []string
	for _, key := range KeptTags {
		if value, ok := tags[key]; ok {
			kept = append(kept, key+"='"+strings.ReplaceAll(url.PathEscape(value), "'", `\'`)+"'")
		}
	}
	if len(kept) == 0 {
		return ""
	}
	comment := "/*" + strings.Join(kept, ",") + "*/"
	if strings.Contains(strings.ToLower(query), "advisory") {
		return lockingStatement + comment
	}
	return comment
}

// readable replaces bytes that are not UTF-8, which databases with the encoding SQL_ASCII can have in names, by escapes such
// as \xff, since JSON cannot hold them.
func readable(texts ...*string) {
	for _, text := range texts {
		if utf8.ValidString(*text) {
			continue
		}
		var b strings.Builder
		for i, r := range *text {
			if r == utf8.RuneError && !strings.HasPrefix((*text)[i:], string(utf8.RuneError)) {
				fmt.Fprintf(&b, `\x%02x`, (*text)[i])
				continue
			}
			b.WriteRune(r)
		}
		*text = b.String()
	}
}
