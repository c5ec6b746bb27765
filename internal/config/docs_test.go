package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/config.md")

func TestDocs(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "config.md")
	var want bytes.Buffer
	require.NoError(t, WriteDocs(&want))

	if *update {
		require.NoError(t, os.WriteFile(path, want.Bytes(), 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want.String(), string(got), "docs/config.md is behind internal/config: run make generate")
}

// The example in the docs is a file that loads.
func TestDocsExample(t *testing.T) {
	t.Parallel()
	_, example, found := strings.Cut(docsTail, "```yaml\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "```")

	got, err := load(t, example, nil, nil)

	require.NoError(t, err)
	require.Equal(t, "yes", got.Sidecar.Labels["gpu"])
	require.Equal(t, 128, got.Sidecar.Slots.Ceiling)
}

// The table and the struct have the same keys.
func TestFieldsMatchStruct(t *testing.T) {
	t.Parallel()
	var tagged []string
	var walk func(prefix string, of reflect.Type)
	walk = func(prefix string, of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			key := prefix + f.Tag.Get("koanf")
			require.NotEmpty(t, f.Tag.Get("koanf"), "%s.%s has no key", of, f.Name)
			if f.Type.Kind() == reflect.Struct {
				walk(key+keyDelimiter, f.Type)
			} else {
				tagged = append(tagged, key)
			}
		}
	}
	walk("", reflect.TypeFor[Sidecar]())

	require.ElementsMatch(t, tagged, Keys())
	for _, f := range Fields() {
		require.NotEmpty(t, f.Doc, f.Key)
		require.NotEmpty(t, f.Allowed(), f.Key)
	}
}

func TestFlagsShowDefaults(t *testing.T) {
	t.Parallel()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fs)

	usage := fs.FlagUsages()

	require.Contains(t, usage, "--slots-ceiling int")
	require.Contains(t, usage, "(SCHED_SLOTS_CEILING) (default 64)")
	require.Contains(t, usage, "--default-timeout duration")
	require.Contains(t, usage, "(default 5m)")
	require.NotContains(t, usage, "secrets")
}

func TestWriteYAML(t *testing.T) {
	t.Parallel()
	loaded, err := load(t, "labels: {zone: a}\napp: {secrets: ["+secretA+"]}", []string{"SCHED_DATABASE_URL=postgres://u:hunter2@h/d", "SCHED_QUEUES=a,b"}, []string{"--shutdown-grace=0s"})
	require.NoError(t, err)

	var out strings.Builder
	require.NoError(t, loaded.WriteYAML(&out))

	require.NotContains(t, out.String(), "hunter2")
	require.Contains(t, out.String(), "url: postgres://u:xxxxx@h/d # SCHED_DATABASE_URL\n")
	require.Contains(t, out.String(), "secrets: [xxxxx] # ")
	require.Contains(t, out.String(), "queues: [a, b] # SCHED_QUEUES\n")
	require.Contains(t, out.String(), "shutdown_grace: 0s # --shutdown-grace\n")
	require.Contains(t, out.String(), "ceiling: 64 # default\n")

	again, err := load(t, strings.ReplaceAll(out.String(), "[xxxxx]", "["+secretA+"]"), nil, nil)
	require.NoError(t, err, "what is printed can be loaded:\n%s", out.String())
	want := loaded.Sidecar
	want.Database.URL = "postgres://u:xxxxx@h/d"
	require.Equal(t, want, again.Sidecar)
}
