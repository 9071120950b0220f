package lockgen

import (
	"regexp"
	"strings"
)

// withoutTexts blanks out string constants, quoted names and comments in SQL.
func withoutTexts(sql string) string {
	var b strings.Builder
	for piece, isText := range pieces(sql) {
		if isText {
			piece = " "
		}
		b.WriteString(piece)
	}
	return b.String()
}

// pieces cuts SQL into texts (a constant, a quoted name or a comment each) and what is between them.
func pieces(sql string) func(yield func(piece string, isText bool) bool) {
	return func(yield func(string, bool) bool) {
		start := 0
		for i := 0; i < len(sql); {
			n := textLength(sql, i)
			if n == 0 {
				i++
				continue
			}
			if i > start && !yield(sql[start:i], false) || !yield(sql[i:i+n], true) {
				return
			}
			i += n
			start = i
		}
		if start < len(sql) {
			yield(sql[start:], false)
		}
	}
}

var dollarQuote = regexp.MustCompile(`^\$(?:[A-Za-z_][A-Za-z0-9_]*)?\$`)

// textLength is the length of the constant, quoted name or comment that begins at sql[i]; 0 if none does.
func textLength(sql string, i int) int {
	rest := sql[i:]
	switch {
	case strings.HasPrefix(rest, "--"):
		return lengthUntil(rest, 2, "\n")
	case strings.HasPrefix(rest, "/*"):
		return blockLength(rest)
	case rest[0] == '\'' && i > 0 && (sql[i-1] == 'E' || sql[i-1] == 'e') && (i == 1 || !inName(sql[i-2])):
		return escapedLength(rest)
	case rest[0] == '\'', rest[0] == '"': // a doubled quote inside is the end of one and the beginning of the next
		return lengthUntil(rest, 1, rest[:1])
	case rest[0] == '$' && (i == 0 || !inName(sql[i-1])):
		if quote := dollarQuote.FindString(rest); quote != "" {
			return lengthUntil(rest, len(quote), quote)
		}
	}
	return 0
}

// inName reports whether a byte can be inside a name, so that nothing new begins after it.
func inName(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || b >= 0x80
}

func lengthUntil(sql string, start int, end string) int {
	n := strings.Index(sql[start:], end)
	if n < 0 {
		return len(sql)
	}
	return start + n + len(end)
}

// blockLength is the length of a /* comment */, inside which there can be others.
func blockLength(sql string) int {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(sql)
}

// escapedLength is the length of a constant such as E'it\'s'.
func escapedLength(sql string) int {
	for i := 1; i < len(sql); i++ {
		switch sql[i] {
		case '\\':
			i++
		case '\'':
			return i + 1
		}
	}
	return len(sql)
}

// inlineComments returns comments that do not begin their line or span several lines, which sqlc ignores.
func inlineComments(file, sql string) (found []Comment) {
	offset, line := 0, 1
	for piece, isText := range pieces(sql) {
		begins := offset == 0 || sql[offset-1] == '\n'
		body := strings.TrimRight(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(piece, "--"), "/*"), "*/"), "\r\n")
		isComment := isText && (strings.HasPrefix(piece, "--") || strings.HasPrefix(piece, "/*"))
		if isComment && (!begins || strings.Contains(body, "\n")) {
			found = append(found, Comment{Text: body, At: Position{File: file, Line: line}, Inline: true})
		}
		offset += len(piece)
		line += strings.Count(piece, "\n")
	}
	return found
}
