package fleetfile

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// SchemaPath is where this repository keeps the JSON Schema of a file.
const SchemaPath = "docs/fleet.schema.json"

// Export writes a fleet as a file. [Parse] reads the same fleet from it.
func Export(fleet Fleet) ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, section := range Sections() {
		entries, given := fleet[section]
		if !given {
			continue
		}
		put(root, string(section), sectionNode(section, entries))
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return b.Bytes(), encoder.Close()
}

func sectionNode(section Section, entries []Entry) *yaml.Node {
	if section == Queues {
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, e := range entries {
			list.Content = append(list.Content, entryNode(append(identityFields(), Queues.Fields()...), e.withIdentity(), e))
		}
		return list
	}
	mapping := &yaml.Node{Kind: yaml.MappingNode}
	for _, e := range entries {
		if section == Settings {
			value := valueNode(e.Values[settingKey])
			value.LineComment = e.pinComment()
			put(mapping, e.Name, value)
			continue
		}
		put(mapping, e.Name, entryNode(section.Fields(), e.Values, e))
	}
	return mapping
}

// withIdentity returns the values together with what tells a queue apart.
func (e Entry) withIdentity() Values {
	values := Values{"name": e.Name}
	if len(e.Selector) > 0 {
		values["selector"] = e.Selector
	}
	if e.Protocol != "" && e.Protocol != anyProtocol {
		values["protocol"] = e.Protocol
	}
	for key, v := range e.Values {
		values[key] = v
	}
	return values
}

func entryNode(fields []Field, values Values, e Entry) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, HeadComment: e.pinComment()}
	for _, f := range fields {
		if v, set := values[f.Key]; set && f.Type == JSON {
			put(n, f.Key, jsonNode(v))
		} else if set {
			put(n, f.Key, valueNode(v))
		}
	}
	return n
}

// pinComment says who keeps a row from being changed by a file.
func (e Entry) pinComment() string {
	if !e.Pinned {
		return ""
	}
	return "# pinned by " + Show(e.By)
}

func put(mapping *yaml.Node, key string, value *yaml.Node) {
	mapping.Content = append(mapping.Content, textNode(key), value)
}

var blockUnfit = regexp.MustCompile(`(?m)^[ \t]|[\t ]$`)

// textNode is a text as a node. In a block a line that begins with white space
// would be read as indentation, so such a text is quoted.
func textNode(text string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(text)
	if n.Style == yaml.LiteralStyle && blockUnfit.MatchString(text) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func valueNode(v any) *yaml.Node {
	switch v := v.(type) {
	case string:
		return textNode(v)
	case time.Duration:
		return textNode(showDuration(v))
	case int64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(v, 10)}
	case float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatFloat(v, 'g', -1, 64)}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}
	case map[string]string:
		n := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
		for _, name := range sortedNames(v) {
			put(n, name, textNode(v[name]))
		}
		return n
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
}
