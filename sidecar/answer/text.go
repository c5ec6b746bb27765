package answer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text makes what an app sent fit for an error text: valid UTF-8 without NUL
// and other control characters (line breaks and tabs stay, stack traces need
// them), trimmed, and at most limit bytes long. A cut is marked with "…".
func Text(text string, limit int) string {
	clean := strings.TrimSpace(strings.Map(printable, text))
	if len(clean) <= limit {
		return clean
	}
	const mark = "…"
	end := max(limit-len(mark), 0)
	for end > 0 && !utf8.RuneStart(clean[end]) {
		end--
	}
	return clean[:end] + mark
}

// printable maps invalid UTF-8 to U+FFFD, as ranging over a string does.
func printable(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r == '\r' || r == 0:
		return -1
	case unicode.IsControl(r):
		return ' '
	default:
		return r
	}
}
