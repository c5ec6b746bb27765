package fleetfile

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write docs/fleet.schema.json")

func TestSchemaFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", filepath.FromSlash(SchemaPath))
	want, err := JSONSchema()
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(path, want, 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "%s is behind this package: run make generate", SchemaPath)
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := JSONSchema()
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("fleet", document))
	compiled, err := compiler.Compile("fleet")
	require.NoError(t, err)
	return compiled
}

// validate is what an editor does with a file.
func validate(s *jsonschema.Schema, text []byte) error {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return err
	}
	value, err := asJSON(document.Content[0])
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// asJSON takes every key of a mapping for text.
func asJSON(n *yaml.Node) (any, error) {
	n = resolve(n)
	switch n.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			value, err := asJSON(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			object[n.Content[i].Value] = value
		}
		return object, nil
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			value, err := asJSON(item)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	default:
		var value any
		err := n.Decode(&value)
		return value, err
	}
}

// The example is valid, for the program and for editors, and shows every key.
func TestExample(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "deploy", "fleet.example.yaml")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(text), "\n")
	reference, found := strings.CutPrefix(first, "# yaml-language-server: $schema=")
	require.True(t, found, first)
	_, err = os.Stat(filepath.Join(filepath.Dir(path), filepath.FromSlash(reference)))
	require.NoError(t, err)

	fleet := parsed(t, string(text))
	require.NoError(t, validate(schema(t), text))
	shown := map[string]bool{}
	for section, entries := range fleet {
		shown[string(section)] = true
		for _, e := range entries {
			shown[e.Name] = true
			for key := range e.withIdentity() {
				shown[key] = true
			}
		}
	}
	for _, section := range Sections() {
		for _, key := range append(keysOf(section.Fields()), string(section)) {
			require.True(t, shown[key], "%s isn't shown", key)
		}
	}
}

// The page about it has a file that is valid, and names every key.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "gitops.md"))
	require.NoError(t, err)
	_, example, found := strings.Cut(string(text), "```yaml\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "```")
	require.NoError(t, validate(schema(t), []byte(example)))
	require.Len(t, parsed(t, example), len(Sections()))
	for _, section := range Sections() {
		for _, key := range append(keysOf(section.Fields()), string(section)) {
			require.Contains(t, string(text), "`"+key+"`")
		}
	}
}

func TestSchemaAcceptsWhatParseAccepts(t *testing.T) {
	t.Parallel()
	s := schema(t)
	require.NoError(t, validate(s, []byte(whole)))
	require.NoError(t, validate(s, []byte("kinds:\nqueues:\nsettings:\n")))
	rapid.Check(t, func(t *rapid.T) {
		text, err := Export(distinct(fleets().Draw(t, "fleet")))
		require.NoError(t, err)
		require.NoError(t, validate(s, text), "%s", text)
	})
}

// An editor marks what the program would refuse, and nothing else.
func TestSchemaRefusesWhatParseRefuses(t *testing.T) {
	t.Parallel()
	s := schema(t)
	values := []string{
		"5", "0", "1", "4", "-1", "1.5", "0.99", "100", "101", "1e3", "true", "null", "''", "text", "A", "any", "http", "HTTP", "30s", "1m30s", "1.5h", "30", "'30'",
		"-1s", "soon", "[]", "{}", "[a]", "{a: b}", "{a: 1}", "{'': b}", `{a: "\n"}`, `"\u007f"`, "1000001", "32767", "32768", "65536",
		strings.Repeat("a", 100), strings.Repeat("a", 101), strings.Repeat("a", 1001), "{" + strings.Repeat("k", 63) + ": v}", "{" + strings.Repeat("k", 64) + ": v}",
	}
	var texts []string
	for _, key := range append(keysOf(Settings.Fields()), "zebra") {
		for _, v := range values {
			texts = append(texts, "settings: {"+key+": "+v+"}")
		}
	}
	for _, key := range append(keysOf(Kinds.Fields()), "zebra", "name") {
		for _, v := range values {
			texts = append(texts, "kinds: {k: {"+key+": "+v+"}}")
		}
	}
	for _, key := range append(keysOf(Queues.Fields()), "selector", "protocol", "zebra") {
		for _, v := range values {
			texts = append(texts, "queues: [{name: q, "+key+": "+v+"}]")
		}
	}
	for _, v := range values {
		texts = append(texts, "queues: [{name: "+v+"}]", "queues: ["+v+"]", "queues: "+v, "kinds: "+v, "settings: "+v, "kinds: {k: "+v+"}", v)
		if !strings.HasPrefix(v, "{") && !strings.HasPrefix(v, "[") {
			texts = append(texts, "kinds: {"+v+": }", v+": {}")
		}
	}
	verdicts := map[bool]int{}
	for _, text := range texts {
		_, err := Parse("f", []byte(text))
		require.Equal(t, err == nil, validate(s, []byte(text)) == nil, "%s\nparse: %v\nschema: %v", text, err, validate(s, []byte(text)))
		verdicts[err == nil]++
	}
	require.Greater(t, slices.Min(slices.Collect(maps.Values(verdicts))), 100)
}
