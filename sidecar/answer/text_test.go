package answer_test

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sidecar/answer"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		limit    int
		want     string
	}{
		{"plain", "boom", 10, "boom"},
		{"trimmed", " \r\n boom\t\n", 10, "boom"},
		{"stack trace", "boom\r\n\tat main.go:1", 40, "boom\n\tat main.go:1"},
		{"nul", "bo\x00om", 10, "boom"},
		{"escape codes", "\x1b[31mred\u0085", 20, "[31mred"},
		{"invalid utf-8", "caf\xe9!", 20, "caf\ufffd!"},
		{"exactly the limit", "0123456789", 10, "0123456789"},
		{"cut", "0123456789x", 10, "0123456…"},
		{"cut between runes", "ééééé", 8, "éé…"},
		{"no room", "0123456789", 2, "…"},
		{"empty", "", 10, ""},
	} {
		require.Equal(t, tc.want, answer.Text(tc.in, tc.limit), tc.name)
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x00b\xffc\r\n\u2028", 5)
	f.Add("é", 3)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = limit&0xFF + 3
		clean := answer.Text(text, limit)
		require.True(t, utf8.ValidString(clean))
		require.NotContains(t, clean, "\x00")
		require.LessOrEqual(t, len(clean), limit)
		require.Equal(t, clean, answer.Text(clean, limit), "cleaning twice changes nothing")
	})
}
