package postgres_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

const document = "../../docs/postgres.md"

// Every test that docs/postgres.md names is there, and every test here that it
// should name is named.
func TestDocumentedTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var here []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range parsed.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				here = append(here, f.Name.Name)
			}
		}
	}
	named := regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, named)
	for _, name := range named {
		require.Contains(t, here, name[1])
	}
	for _, name := range here {
		known := slices.ContainsFunc(named, func(n []string) bool { return n[1] == name })
		require.True(t, known || name == "TestMain" || name == "TestDocumentedTests", "%s isn't in %s", name, document)
	}
}

// What the document tells to run, as whom it says.
func TestDocumentedSQL(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	root := open(t, server.DSN())
	dsn := newDatabase(t, root, server, "deploy")
	for _, statement := range documented(t, "administrator") {
		execute(t, root, statement)
	}
	migrateUp(t, dsn)
	owner := open(t, dsn)
	for _, statement := range documented(t, "owner") {
		execute(t, owner, statement)
	}
	options := func(db *pgxpool.Pool) []string {
		return all[string](t, db, "SELECT unnest(reloptions) FROM pg_class WHERE oid = 'sched.river_job'::regclass ORDER BY 1")
	}
	set := options(owner)
	require.Contains(t, set, "autovacuum_vacuum_scale_factor=0.01")
	migrateUp(t, dsn)
	require.Equal(t, set, options(owner))

	a := newApp(t, nil)
	startSidecar(t, withUser(t, dsn, "sidecar"), a.url, nil)
	a.await(t, enqueue(t, open(t, withUser(t, dsn, "shop")), "k"), 1, soon)
}

// documented returns the statements of the SQL blocks that are for somebody.
func documented(t *testing.T, whom string) []string {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	var statements []string
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		body, ok := strings.CutPrefix(block[1], "-- "+whom+"\n")
		if !ok {
			continue
		}
		for statement := range strings.SplitSeq(body, ";") {
			statement = strings.TrimSpace(regexp.MustCompile(`--.*`).ReplaceAllString(statement, ""))
			if statement != "" {
				statements = append(statements, statement)
			}
		}
	}
	require.NotEmpty(t, statements)
	return statements
}
