package doctor

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDocs_ListEveryCheck(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/doctor.md")
	require.NoError(t, err)
	rows := ""
	for _, c := range checks() {
		rows += fmt.Sprintf("| `%s` | %s |\n", c.name, c.about)
	}
	require.Contains(t, string(page), "|---|---|\n"+rows+"\n")
}
