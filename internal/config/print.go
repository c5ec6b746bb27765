package config

import (
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// WriteYAML writes the configuration as a file that [Load] would read, each
// value with where it comes from, secrets redacted.
func (l *Loaded) WriteYAML(w io.Writer) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range Fields() {
		value, err := yamlValue(valueAt(&l.Sidecar, f.Key).Interface())
		if err != nil {
			return fmt.Errorf("config: %s: %w", f.Key, err)
		}

		into := root
		name := f.Key
		if section, rest, nested := strings.Cut(f.Key, keyDelimiter); nested {
			into, name = sectionNode(root, section), rest
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: name}
		comment := value
		if value.Kind != yaml.ScalarNode && value.Style != yaml.FlowStyle {
			comment = key
		}
		comment.LineComment = l.Source(f.Key)
		into.Content = append(into.Content, key, value)
	}

	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(root); err != nil {
		return err
	}

	return e.Close()
}

// sectionNode returns the mapping called name, made when it's missing.
func sectionNode(root *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == name {
			return root.Content[i+1]
		}
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, n)

	return n
}

func yamlValue(v any) (*yaml.Node, error) {
	if d, ok := v.(time.Duration); ok {
		v = showDuration(d)
	}
	n := &yaml.Node{}
	if err := n.Encode(v); err != nil {
		return nil, err
	}
	if n.Kind == yaml.SequenceNode || n.Kind == yaml.MappingNode {
		n.Style = yaml.FlowStyle
	}
	if isNull(n) { // a nil list; a nil mapping encodes as {}
		n = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	}

	return n, nil
}
