package recording

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

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

// withoutQueries reduces all statements in JSON to their tags. It is used for the sessions of a snapshot that have no
// advisory locks, which are rare.
func withoutQueries(text []byte) ([]byte, error) {
	if !bytes.Contains(text, []byte(`"query":`)) {
		return text, nil
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	forgetQueries(value)
	return json.Marshal(value)
}

func forgetQueries(value any) {
	switch value := value.(type) {
	case []any:
		for _, each := range value {
			forgetQueries(each)
		}
	case map[string]any:
		for name, each := range value {
			if query, ok := each.(string); ok && name == "query" {
				value[name] = tagsOnly(query)
				continue
			}
			forgetQueries(each)
		}
	}
}
