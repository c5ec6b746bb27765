package recipes_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// TestSnippetsAreTheShopsOwnLines holds each block of code on a page to the
// file that the comment above it names. Commands to type (sh) have none.
func TestSnippetsAreTheShopsOwnLines(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?ms)^(?:<!-- (\\S+) -->\n)?```(\\w+)\n(.*?)^```$")
	checked := 0
	for _, page := range pages(t) {
		for _, found := range block.FindAllStringSubmatch(read(t, page), -1) {
			source, language, code := found[1], found[2], found[3]
			if source == "" {
				require.Contains(t, []string{"sh", "sql"}, language, "%s: name the file of\n%s", page, code)
				require.True(t, language == "sh" || filepath.Base(page) == "README.md", "%s: name the file of\n%s", page, code)
				continue
			}
			require.Contains(t, trimLines(read(t, filepath.Join(root, source))), trimLines(code), "%s: not in %s", page, source)
			checked++
		}
	}
	require.Greater(t, checked, 30, "the blocks were found")
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)]+)\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.+)$`)
	notWord := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, page := range append(pages(t), filepath.Join(root, "docs/exactly-once.md"), "README.md") {
		for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			_, err := os.Stat(path)
			require.NoError(t, err, page)
			if anchor == "" {
				continue
			}
			var anchors []string
			for _, h := range heading.FindAllStringSubmatch(read(t, path), -1) {
				anchors = append(anchors, strings.ReplaceAll(notWord.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
			}
			require.Contains(t, anchors, anchor, "%s: %s", page, found[1])
		}
	}
}

func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "docs/recipes/*.md"))
	require.NoError(t, err)
	require.Greater(t, len(found), 10)
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// trimLines makes text comparable that stands farther left on a page than in its file.
func trimLines(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}
