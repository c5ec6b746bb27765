package fleetfile

import (
	"bytes"
	"encoding/json"
)

// object keeps the order of its keys, for a file that people read too.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, part := range []any{m.key, m.value} {
			encoder := json.NewEncoder(&b)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(part); err != nil {
				return nil, err
			}
			if j == 0 {
				b.WriteByte(':')
			}
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// durationPattern is what time.ParseDuration reads, of what is above zero. The
// range, and that retry_cap isn't under retry_base, only [Parse] checks.
const durationPattern = `^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`

// JSONSchema returns the JSON Schema of a file, for editors. What it accepts,
// [Parse] accepts, but for durations, names that come twice and what a cron expression says.
func JSONSchema() ([]byte, error) {
	root := object{
		{"$schema", "http://json-schema.org/draft-07/schema#"},
		{"title", "Settings, queues, kinds and schedules of a sched fleet"},
		{"description", "For sched apply -f; see docs/gitops.md. Generated: make generate."},
		{"type", "object"},
		{"minProperties", 0},
		{"additionalProperties", false},
		{"properties", object{
			{string(Settings), object{
				{"description", "Settings that every sidecar and every enqueue agree on."},
				{"type", []string{"object", "null"}},
				{"additionalProperties", false},
				{"properties", properties(settingFields(), false)},
			}},
			{string(Queues), object{
				{"description", "Queues; told apart by name, selector and protocol."},
				{"type", []string{"array", "null"}},
				{"items", object{
					{"type", "object"},
					{"required", []string{"name"}},
					{"additionalProperties", false},
					{"properties", append(append(object{}, properties(identityFields()[:1], false)...), properties(append(identityFields()[1:], Queues.Fields()...), true)...)},
				}},
			}},
			{string(Kinds), object{
				{"description", "Kinds of tasks by name: what an enqueue gets that leaves an argument out. A key that is left out is not set."},
				{"type", []string{"object", "null"}},
				{"propertyNames", object{{"pattern", kindPattern}, {"maxLength", maxKind}}},
				{"additionalProperties", object{
					{"type", []string{"object", "null"}},
					{"additionalProperties", false},
					{"properties", properties(Kinds.Fields(), true)},
				}},
			}},
			{string(Schedules), object{
				{"description", "Periodic tasks by name: what is enqueued, and when."},
				{"type", []string{"object", "null"}},
				{"propertyNames", object{{"pattern", schedulePattern}, {"maxLength", maxSchedule}}},
				{"additionalProperties", object{
					{"type", "object"},
					{"required", keysOf(Schedules.Fields()[:requiredKeys])},
					{"additionalProperties", false},
					{"properties", append(properties(Schedules.Fields()[:requiredKeys], false), properties(Schedules.Fields()[requiredKeys:], true)...)},
				}},
			}},
		}},
	}
	text, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func properties(fields []Field, orNull bool) object {
	var o object
	for _, f := range fields {
		o = append(o, member{f.Key, f.schema(orNull)})
	}
	return o
}

func (f Field) schema(orNull bool) object {
	o := object{{"description", f.Doc}}
	kind := map[Type]string{Text: "string", Duration: "string", Integer: "integer", Number: "number", Flag: "boolean", Labels: "object"}[f.Type]
	if f.Type == JSON {
		return o // anything
	}
	if orNull {
		o = append(o, member{"type", []string{kind, "null"}})
	} else {
		o = append(o, member{"type", kind})
	}
	switch f.Type {
	case Text:
		o = append(o, f.textSchema(orNull)...)
	case Integer, Number:
		o = append(o, member{"minimum", f.Min})
		if f.BelowMax {
			o = append(o, member{"exclusiveMaximum", f.Max})
		} else {
			o = append(o, member{"maximum", f.Max})
		}
	case Duration:
		o = append(o, member{"pattern", durationPattern}, member{"examples", []string{"500ms", "30s", "1m30s"}})
	case Labels:
		o = append(o,
			member{"maxProperties", maxPairs},
			member{"propertyNames", object{{"pattern", `^[^\x00-\x1f\x7f-\x9f]+$`}, {"maxLength", maxLabel}}},
			member{"additionalProperties", object{{"type", "string"}, {"pattern", `^[^\x00-\x1f\x7f-\x9f]*$`}, {"maxLength", maxLabelValue}}})
	}
	if f.Default != nil {
		o = append(o, member{"default", f.Default})
	}
	return o
}

func (f Field) textSchema(orNull bool) object {
	if f.Enum != nil {
		values := make([]any, 0, len(f.Enum)+1)
		for _, v := range f.Enum {
			values = append(values, v)
		}
		if orNull {
			values = append(values, nil)
		}
		return object{{"enum", values}}
	}
	o := object{{"minLength", f.Min}, {"maxLength", f.Max}}
	pattern := f.Pattern
	if pattern == "" {
		pattern = `^[^\x00]*$`
	}
	return append(o, member{"pattern", pattern})
}
