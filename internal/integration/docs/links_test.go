package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?s)```.*?```")
)

func TestDocsLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s does not exist", page, match[1])
			} else if anchor != "" && !hasHeading(read(t, file), anchor) {
				t.Errorf("%s: %s has no such heading", page, match[1])
			}
		}
	}
}

// TestDocsEveryPageIsTwoClicksFromREADME follows the links of README.md, and those of the pages that they lead to.
func TestDocsEveryPageIsTwoClicksFromREADME(t *testing.T) {
	start := filepath.Join(root, "README.md")
	reached := map[string]bool{start: true}
	for range 2 {
		for page := range maps.Clone(reached) {
			for _, next := range linkedPages(t, page) {
				reached[next] = true
			}
		}
	}
	for _, page := range pages(t) {
		if !reached[page] {
			t.Errorf("%s is not reachable from README.md by two links; docs/README.md is the map of all pages", page)
		}
	}
}

// linkedPages returns the pages that the links of a page lead to.
func linkedPages(t *testing.T, page string) (linked []string) {
	t.Helper()
	for _, match := range link.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
		target, _, _ := strings.Cut(match[1], "#")
		if strings.HasSuffix(target, ".md") && !strings.Contains(target, "://") {
			linked = append(linked, filepath.Join(filepath.Dir(page), target))
		}
	}
	return linked
}

func hasHeading(text, anchor string) bool {
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		if slug(match[1]) == anchor {
			return true
		}
	}
	return false
}

// slug returns the anchor that a heading has on code hosting sites: lower case, hyphens for spaces, no punctuation.
func slug(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
			return r
		}
		return -1
	}, strings.ToLower(text))
}
