package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxFileBytes bounds what is read of a configuration or secret file.
const maxFileBytes = 1 << 20

// readBounded reads a file of at most maxFileBytes.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, maxFileBytes)
	}

	return text, nil
}

// fileLayer reads a YAML file. Its problems name the line.
func fileLayer(path, givenBy string) *layer {
	text, err := readBounded(path)
	if err != nil {
		l := newLayer()
		l.complain(Problem{Source: givenBy, What: "can't read the configuration file: " + err.Error(), Advice: "give the path of a readable YAML file, or none to do without"})

		return l
	}

	return yamlLayer(path, text)
}

// yamlLayer parses the text of a file that is called name.
func yamlLayer(name string, text []byte) *layer {
	l := newLayer()
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))

	var doc yaml.Node
	if err := decoder.Decode(&doc); err != nil {
		if !errors.Is(err, io.EOF) { // an empty file sets nothing
			l.complain(Problem{Source: name, What: "is not YAML: " + err.Error()})
		}

		return l
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		l.complain(Problem{Source: name, What: "has more than one YAML document", Advice: "keep one, without a line of ---"})

		return l
	}

	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return l
	}
	if root.Kind != yaml.MappingNode {
		l.complain(Problem{Source: name, What: "must be a mapping of keys such as app: {url: …}"})

		return l
	}
	(&yamlWalk{layer: l, name: name}).mapping("", root)

	return l
}

// yamlWalk collects the fields of a document.
type yamlWalk struct {
	*layer

	name string
}

func (w *yamlWalk) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", w.name, n.Line) }

func (w *yamlWalk) mapping(prefix string, n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		keyNode, value := n.Content[i], resolve(n.Content[i+1])
		key := prefix + keyNode.Value
		fields := Fields()

		if at := slices.IndexFunc(fields, func(f Field) bool { return f.Key == key }); at >= 0 {
			w.field(fields[at], w.at(keyNode), value)

			continue
		}
		if !isSectionKey(key) {
			w.complain(Problem{Key: key, Source: w.at(keyNode), What: "is not a key", Advice: didYouMean(key, Keys(), "docs/config.md lists them")})

			continue
		}
		switch {
		case isNull(value):
		case value.Kind == yaml.MappingNode:
			w.mapping(key+keyDelimiter, value)
		default:
			w.complain(Problem{Key: key, Source: w.at(keyNode), What: "must be a mapping of " + strings.Join(keysUnder(key), ", ")})
		}
	}
}

func (w *yamlWalk) field(f Field, source string, n *yaml.Node) {
	if isNull(n) { // "labels:" with nothing behind it sets nothing
		return
	}
	if earlier, twice := w.sources[f.Key]; twice {
		w.complain(Problem{Key: f.Key, Source: source, What: "is given twice, first at " + earlier, Advice: "keep one"})

		return
	}
	v, err := parseNode(valueAt(&Sidecar{}, f.Key).Type(), n)
	if err != nil {
		shown := ""
		if n.Kind == yaml.ScalarNode && !f.IsSecret() {
			shown = quoteEmpty(n.Value)
		}
		w.complain(Problem{Key: f.Key, Value: shown, Source: source, What: err.Error()})

		return
	}
	w.set(f.Key, source, v)
}

// parseNode turns a YAML value into the type of a field. It takes YAML at its
// word: 5 is a number, "5" is text.
func parseNode(want reflect.Type, n *yaml.Node) (any, error) {
	switch reflect.Zero(want).Interface().(type) {
	case []Secret, []string:
		return parseSequence(want, n)
	case map[string]string:
		return parseMapping(n)
	}

	if n.Kind != yaml.ScalarNode {
		return nil, errors.New("must be a single value")
	}
	tag := n.ShortTag()
	switch reflect.Zero(want).Interface().(type) {
	case string, DSN, Secret:
		if tag != "!!str" {
			return nil, errors.New("must be text: put it in quotes")
		}
	case time.Duration:
		if tag == "!!int" || tag == "!!float" {
			return nil, fmt.Errorf("is a number without a unit; write a duration such as %ss, %sms or 1m30s", n.Value, n.Value)
		}
	case bool:
		if tag != "!!bool" {
			return nil, errors.New("must be true or false")
		}
	case int, int64:
		if tag != "!!int" {
			return nil, errors.New("must be a whole number")
		}
	case float64:
		if tag != "!!int" && tag != "!!float" {
			return nil, errors.New("must be a number")
		}
	}

	return parseText(want, n.Value)
}

func parseSequence(want reflect.Type, n *yaml.Node) (any, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, errors.New("must be a list: [a, b]")
	}
	list := reflect.Zero(want) // stays nil when empty: that is how "all" is told
	for _, item := range n.Content {
		text, err := textOf(resolve(item))
		if err != nil {
			return nil, fmt.Errorf("must be a list of texts: an item %w", err)
		}
		list = reflect.Append(list, reflect.ValueOf(text).Convert(want.Elem()))
	}

	return list.Interface(), nil
}

func parseMapping(n *yaml.Node) (any, error) {
	if n.Kind != yaml.MappingNode {
		return nil, errors.New("must be a mapping: {zone: a}")
	}
	pairs := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, err := textOf(resolve(n.Content[i]))
		if err != nil {
			return nil, fmt.Errorf("has a key that %w", err)
		}
		value, err := textOf(resolve(n.Content[i+1]))
		if err != nil {
			return nil, fmt.Errorf("has for %s a value that %w", key, err)
		}
		if _, twice := pairs[key]; twice {
			return nil, fmt.Errorf("gives %q twice", key)
		}
		pairs[key] = value
	}

	return pairs, nil
}

// textOf returns a text. 1.10 is none: YAML reads a number there, and what was
// written would be lost.
func textOf(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", errors.New("is not a text")
	}
	if n.ShortTag() != "!!str" {
		return "", fmt.Errorf("YAML doesn't take for text: write %q in quotes", n.Value)
	}

	return n.Value, nil
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}

	return n
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// isSectionKey reports whether key is the first part of longer keys.
func isSectionKey(key string) bool {
	return len(keysUnder(key)) > 0
}

func keysUnder(key string) []string {
	var under []string
	for _, k := range Keys() {
		if rest, ok := strings.CutPrefix(k, key+keyDelimiter); ok {
			under = append(under, rest)
		}
	}

	return under
}
