package fleetfile

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/schedule"
)

// Parse reads a file that is called name. Its error is an [InvalidError].
func Parse(name string, text []byte) (Fleet, error) {
	p := &parser{name: name, fleet: Fleet{}}
	if root := p.document(text); root != nil {
		p.sections(root)
	}
	if len(p.problems) > 0 {
		return nil, &InvalidError{Problems: p.problems}
	}
	return p.fleet, nil
}

type parser struct {
	name     string
	fleet    Fleet
	problems []config.Problem
}

func (p *parser) complain(n *yaml.Node, key, value, what, advice string) {
	source := p.name
	if n != nil {
		source = fmt.Sprintf("%s:%d", p.name, n.Line)
	}
	p.problems = append(p.problems, config.Problem{Key: key, Value: value, Source: source, What: what, Advice: advice})
}

// document returns the mapping that a file consists of; nil when there is none.
func (p *parser) document(text []byte) *yaml.Node {
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	var doc yaml.Node
	if err := decoder.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			p.complain(nil, "", "", "has nothing in it", "give it a section: "+sectionNames())
		} else {
			p.complain(nil, "", "", "is not YAML: "+strings.TrimPrefix(err.Error(), "yaml: "), "")
		}
		return nil
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		p.complain(nil, "", "", "has more than one YAML document", "keep one, without a line of ---")
		return nil
	}
	root := resolve(doc.Content[0])
	if root.Kind != yaml.MappingNode {
		p.complain(root, "", "", "must be a mapping with the keys "+sectionNames(), "")
		return nil
	}
	return root
}

func sectionNames() string { return fmt.Sprintf("%s, %s, %s, %s", Settings, Queues, Kinds, Schedules) }

func (p *parser) sections(root *yaml.Node) {
	for key, value := range p.pairs("", root) {
		section := Section(key.Value)
		switch section {
		case Kinds, Settings, Schedules:
			if value = p.emptyOr(value, yaml.MappingNode); value == nil {
				p.complain(key, key.Value, "", "must be a mapping from names to what they are", "")
				continue
			}
			p.fleet[section] = p.named(section, value)
		case Queues:
			if value = p.emptyOr(value, yaml.SequenceNode); value == nil {
				p.complain(key, key.Value, "", "must be a list: - name: …", "")
				continue
			}
			p.fleet[section] = p.queues(value)
		default:
			p.complain(key, key.Value, "", "is not a key", didYouMean(key.Value, []string{string(Settings), string(Queues), string(Kinds), string(Schedules)}))
		}
	}
}

// emptyOr takes "kinds:" with nothing behind it for an empty section, and
// anything but the right kind of node for nothing.
func (p *parser) emptyOr(n *yaml.Node, kind yaml.Kind) *yaml.Node {
	if isNull(n) {
		return &yaml.Node{Kind: kind, Line: n.Line}
	}
	if n.Kind != kind {
		return nil
	}
	return n
}

// named reads a section whose entries have names: all but queues.
func (p *parser) named(section Section, n *yaml.Node) []Entry {
	entries := []Entry{}
	for key, value := range p.pairs(string(section), n) {
		path := string(section) + "." + key.Value
		e := Entry{Name: key.Value, Values: Values{}, line: key.Line}
		switch section {
		case Settings:
			f, known := fieldOf(section.Fields(), key.Value)
			if !known {
				p.complain(key, path, "", "is not a setting", didYouMean(key.Value, keysOf(section.Fields())))
				continue
			}
			if isNull(value) {
				p.complain(key, path, "", "has no value", "give it one, or leave the setting out")
				continue
			}
			p.value(e.Values, settingKey, path, f, value)
		case Schedules:
			if what := (Field{Min: 1, Max: maxSchedule, Pattern: schedulePattern, Shape: scheduleShape}).check(key.Value); what != "" {
				p.complain(key, path, "", "is not the name of a schedule: "+what, "")
			}
			p.entry(path, section.Fields(), e.Values, value)
			p.schedule(path, e.Values, key, value)
		default:
			if what := (Field{Min: 1, Max: maxKind, Pattern: kindPattern, Shape: kindShape}).check(key.Value); what != "" {
				p.complain(key, path, "", "is not the name of a kind: "+what, "")
			}
			p.entry(path, section.Fields(), e.Values, value)
			p.retryDelays(path, e.Values, key)
		}
		entries = append(entries, e)
	}
	return entries
}

// queues reads the section whose entries are told apart by three keys.
func (p *parser) queues(n *yaml.Node) []Entry {
	entries := []Entry{}
	seen := map[string]int{}
	for i, item := range n.Content {
		item = resolve(item)
		path := fmt.Sprintf("%s[%d]", Queues, i)
		identity := Values{}
		e := Entry{Values: Values{}, Protocol: anyProtocol, line: item.Line}
		all := append(identityFields(), Queues.Fields()...)
		if item.Kind != yaml.MappingNode {
			p.complain(item, path, "", "must be a mapping with a name: - name: …", "")
			continue
		}
		p.entry(path, all, e.Values, item)
		for _, f := range identityFields() {
			if v, given := e.Values[f.Key]; given {
				identity[f.Key] = v
				delete(e.Values, f.Key)
			}
		}
		name, named := identity["name"].(string)
		if !named {
			if !sets(item, "name") {
				p.complain(item, path+".name", "", "is missing", "every queue needs one")
			}
			continue
		}
		e.Name = name
		if selector, ok := identity["selector"].(map[string]string); ok && len(selector) > 0 {
			e.Selector = selector
		}
		if protocol, ok := identity["protocol"].(string); ok {
			e.Protocol = protocol
		}
		if first, twice := seen[e.id()]; twice {
			p.complain(item, path, "", fmt.Sprintf("is queue %s again, first in line %d", e.Title(), first), "keep one")
			continue
		}
		seen[e.id()] = item.Line
		entries = append(entries, e)
	}
	return entries
}

// entry reads the keys of one entry into values.
func (p *parser) entry(path string, fields []Field, values Values, n *yaml.Node) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		p.complain(n, path, "", "must be a mapping of "+strings.Join(keysOf(fields), ", "), "")
		return
	}
	for key, value := range p.pairs(path, n) {
		f, known := fieldOf(fields, key.Value)
		switch {
		case !known:
			p.complain(key, path+"."+key.Value, "", "is not a key", didYouMean(key.Value, keysOf(fields)))
		case !isNull(value): // null is not set
			p.value(values, f.Key, path+"."+f.Key, f, value)
		}
	}
}

// value reads one value, and keeps it when it is good.
func (p *parser) value(values Values, key, path string, f Field, n *yaml.Node) {
	v, err := f.fromYAML(n)
	var what string
	if err != nil {
		what = err.Error()
	} else {
		what = f.check(v)
	}
	if what != "" {
		shown := ""
		if n.Kind == yaml.ScalarNode {
			shown = Show(n.Value)
		}
		p.complain(n, path, shown, what, "")
		return
	}
	values[key] = v
}

func (p *parser) retryDelays(path string, values Values, n *yaml.Node) {
	base, hasBase := values["retry_base"].(time.Duration)
	most, hasMost := values["retry_cap"].(time.Duration)
	if hasBase && hasMost && most < base {
		p.complain(n, path+".retry_cap", showDuration(most), "is below retry_base, "+showDuration(base), "raise it, or lower the base")
	}
}

// schedule checks what must be there, and whether the expression says anything.
func (p *parser) schedule(path string, values Values, key, n *yaml.Node) {
	for _, f := range scheduleFields()[:requiredKeys] {
		if _, given := values[f.Key]; !given && (n.Kind != yaml.MappingNode || !sets(n, f.Key)) {
			p.complain(key, path+"."+f.Key, "", "is missing", "every schedule needs one")
		}
	}
	refuse := func(key, value string, err error) {
		what := strings.TrimPrefix(err.Error(), schedule.ErrInvalid.Error()+": ")
		p.complain(lineOf(n, key), path+"."+key, Show(value), "says nothing: "+what, "")
	}
	if zone, given := values["timezone"].(string); given {
		if _, err := schedule.Parse("@daily", zone); err != nil {
			refuse("timezone", zone, err)
		}
	}
	if expression, given := values["cron"].(string); given {
		if _, err := schedule.Parse(expression, "UTC"); err != nil {
			refuse("cron", expression, err)
		}
	}
}

// didYouMean is the advice about a key that doesn't exist.
func didYouMean(name string, known []string) string {
	if near := config.Nearest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "known are " + strings.Join(known, ", ")
}
