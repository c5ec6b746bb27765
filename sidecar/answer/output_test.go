package answer_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sidecar/answer"
)

func TestOutputAccepts(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`null`, `true`, `0`, `-0.5e-3`, `1E+308`, `""`, `[]`, ` {"a" : [1, "b", {}]} `,
		`"\ud83d\ude00"`, `"\uD83D\uDE00"`, `"\\u0000"`, `"\\\\u0000"`, `"\u0001\u00e9\uffff"`, `"é😀"`,
		`1e131071`, `1e-16383`, `"` + strings.Repeat("x", 1<<16) + `"`,
		strings.Repeat("[", answer.MaxDepth) + strings.Repeat("]", answer.MaxDepth),
		`"[[[["`, `"-"`, `{"\"":"\\"}`,
	} {
		require.NoError(t, answer.Output([]byte(raw)), "%.60s", raw)
	}
}

func TestOutputRefuses(t *testing.T) {
	t.Parallel()
	for raw, says := range map[string]string{
		``:                                "not valid JSON",
		`ok`:                              "not valid JSON: invalid character 'o'",
		`{"a":1} {"b":2}`:                 "not valid JSON",
		"\ufeff{}":                        "not valid JSON",
		"\"\xff\"":                        "UTF-8",
		`"\u0000"`:                        "NUL",
		`{"a\u0000":1}`:                   "NUL",
		`["a\\\u0000"]`:                   "NUL",
		`"\ud83d"`:                        "surrogate",
		`"\ud83dx"`:                       "surrogate",
		`"\ud83d\n"`:                      "surrogate",
		`"\ud83d\u0041"`:                  "surrogate",
		`"\ude00"`:                        "surrogate",
		`"\ud83d\ud83d\ude00"`:            "surrogate",
		`1e131073`:                        "numeric",
		`[1,-12e131071]`:                  "numeric",
		`1e-16384`:                        "numeric",
		`1e99999999999999999999999`:       "numeric",
		"0." + strings.Repeat("1", 16384): "numeric",
		strings.Repeat("[", 600) + strings.Repeat("]", 600):           "deep",
		strings.Repeat(`{"a":`, 600) + `1` + strings.Repeat("}", 600): "deep",
	} {
		err := answer.Output([]byte(raw))
		require.ErrorIs(t, err, answer.ErrOutput, "%.60s", raw)
		require.ErrorContains(t, err, says, "%.60s", raw)
	}
}

func FuzzOutput(f *testing.F) {
	f.Add([]byte(`{"a":["\u0000",1e5,"\ud83d\ude00"]}`))
	f.Add([]byte(`"\\u0000"`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if answer.Output(raw) != nil {
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		for {
			token, err := decoder.Token()
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				return
			}
			if text, ok := token.(string); ok {
				require.NotContains(t, text, "\x00")
			}
		}
	})
}
