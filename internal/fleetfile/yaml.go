package fleetfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// pairs yields the keys and values of a mapping, aliases resolved, and complains
// about a key that comes twice.
func (p *parser) pairs(path string, n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(*yaml.Node, *yaml.Node) bool) {
		lines := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
			if key.Kind != yaml.ScalarNode {
				p.complain(key, path, "", "has a key that is no name", "")
				continue
			}
			if first, twice := lines[key.Value]; twice {
				full := key.Value
				if path != "" {
					full = path + "." + full
				}
				p.complain(key, full, "", fmt.Sprintf("is given twice, first in line %d", first), "keep one")
				continue
			}
			lines[key.Value] = key.Line
			if !yield(key, value) {
				return
			}
		}
	}
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// fromYAML reads a value. It takes YAML at its word: 5 is a number, "5" is text.
func (f Field) fromYAML(n *yaml.Node) (any, error) {
	if f.Type == Labels {
		return labelsFromYAML(n)
	}
	if f.Type == JSON {
		return jsonFromYAML(n)
	}
	if n.Kind != yaml.ScalarNode {
		return nil, errors.New("must be a single value")
	}
	tag := n.ShortTag()
	switch f.Type {
	case Integer:
		return integerFromYAML(n)
	case Number:
		var v float64
		if (tag != "!!int" && tag != "!!float") || n.Decode(&v) != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("must be a number")
		}
		return asReal(v), nil
	case Flag:
		if tag != "!!bool" {
			return nil, errors.New("must be true or false")
		}
		var v bool
		err := n.Decode(&v)
		return v, err
	case Duration:
		if tag == "!!int" || tag == "!!float" {
			return nil, fmt.Errorf("is a number without a unit; write a duration such as %ss, %sms or 1m30s", n.Value, n.Value)
		}
		v, err := time.ParseDuration(n.Value)
		if err != nil || tag != "!!str" {
			return nil, errors.New("is not a duration; write one such as 500ms, 30s or 1m30s")
		}
		return v, nil
	default:
		return textFromYAML(n)
	}
}

// integerFromYAML takes 1e3 and 2.0, too: to an editor's schema they are whole.
func integerFromYAML(n *yaml.Node) (any, error) {
	var v float64
	if tag := n.ShortTag(); (tag != "!!int" && tag != "!!float") || n.Decode(&v) != nil || v != math.Trunc(v) {
		return nil, errors.New("must be a whole number")
	}
	if math.Abs(v) > 1<<53 {
		return nil, errors.New("must be a whole number in range")
	}
	return int64(v), nil
}

// sets reports whether a mapping has a key with something behind it.
func sets(n *yaml.Node, key string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if resolve(n.Content[i]).Value == key && !isNull(resolve(n.Content[i+1])) {
			return true
		}
	}
	return false
}

// lineOf returns the key's node in a mapping, or the mapping itself.
func lineOf(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if at := resolve(n.Content[i]); at.Value == key {
			return at
		}
	}
	return n
}

func textFromYAML(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", errors.New("must be text")
	}
	if n.ShortTag() != "!!str" {
		return "", fmt.Errorf("must be text: write %q in quotes", n.Value)
	}
	return n.Value, nil
}

func labelsFromYAML(n *yaml.Node) (any, error) {
	if n.Kind != yaml.MappingNode {
		return nil, errors.New("must be a mapping: {zone: a}")
	}
	labels := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, err := textFromYAML(resolve(n.Content[i]))
		if err != nil {
			return nil, fmt.Errorf("has a name that %w", err)
		}
		if _, twice := labels[name]; twice {
			return nil, fmt.Errorf("gives %q twice", name)
		}
		if labels[name], err = textFromYAML(resolve(n.Content[i+1])); err != nil {
			return nil, fmt.Errorf("has for %s a value that %w", name, err)
		}
	}
	return labels, nil
}

// jsonFromYAML takes what JSON can say, as the database will hand it back.
func jsonFromYAML(n *yaml.Node) (any, error) {
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, fmt.Errorf("can't be read: %w", err)
	}
	text, err := json.Marshal(v)
	if err != nil || hasUnstorable(v) {
		return nil, errors.New("must be what JSON can say: names are text, without a zero character; whole numbers above 2^53 are better written as text")
	}
	var plain any
	err = json.Unmarshal(text, &plain)
	return plain, err
}

// hasUnstorable looks for what Postgres can't keep, or not every reader of JSON does.
func hasUnstorable(v any) bool {
	switch v := v.(type) {
	case int:
		return v > 1<<53 || v < -1<<53
	case uint64:
		return true
	case string:
		return strings.ContainsRune(v, 0)
	case []any:
		return slices.ContainsFunc(v, hasUnstorable)
	case map[string]any:
		for name, item := range v {
			if hasUnstorable(name) || hasUnstorable(item) {
				return true
			}
		}
	}
	return false
}

// jsonNode writes whole numbers as such.
func jsonNode(v any) *yaml.Node {
	n := &yaml.Node{}
	switch v := v.(type) {
	case map[string]any:
		n.Kind, n.Style = yaml.MappingNode, yaml.FlowStyle
		for _, name := range slices.Sorted(maps.Keys(v)) {
			put(n, name, jsonNode(v[name]))
		}
	case []any:
		n.Kind, n.Style = yaml.SequenceNode, yaml.FlowStyle
		for _, item := range v {
			n.Content = append(n.Content, jsonNode(item))
		}
	case string:
		n.Kind, n.Style, n.Tag, n.Value = yaml.ScalarNode, yaml.DoubleQuotedStyle, "!!str", v
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= 1<<53 {
			return valueNode(int64(v))
		}
		return valueNode(v)
	default:
		return valueNode(v)
	}
	return n
}
