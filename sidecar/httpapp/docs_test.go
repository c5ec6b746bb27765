package httpapp

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocumentedStatuses holds the status table of docs/http.md to the code:
// every status that a row names has the outcome of its second cell.
func TestDocumentedStatuses(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/http.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| status | outcome |")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")

	statuses := regexp.MustCompile(`\b[2-5]\d\d\b`)
	checked := map[string]bool{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 3 {
			continue
		}
		header := http.Header{}
		if strings.Contains(cells[1], "with `Retry-After`") {
			header.Set(headerRetryAfter, "5")
		}
		for _, status := range statuses.FindAllString(cells[1], -1) {
			code, err := strconv.Atoi(status)
			require.NoError(t, err)
			got := outcomeOf(reply{status: code, header: header}, "kind", noon())
			require.Equal(t, strings.TrimSpace(cells[2]), got.Kind.String(), row)
			header.Set(headerNoRetry, "true")
			if code >= 300 {
				require.Equal(t, "cancel", outcomeOf(reply{status: code, header: header}, "kind", noon()).Kind.String())
			}
			header.Del(headerNoRetry)
			checked[status] = true
		}
	}
	require.Greater(t, len(checked), 20, "the table was found and read")
}
