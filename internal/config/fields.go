package config

import (
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Field is one key: how it is called in each source, and what it may hold. Its
// type is that of the struct field with the same koanf path.
type Field struct {
	Key    string // as in the file: slots.ceiling
	Doc    string // what it does, for docs/config.md and --help
	Values string // what it may hold, for docs and errors; empty for numbers with bounds

	// Bounds of a number or duration, both included; ignored when equal.
	Min, Max float64
	Advice   string // what to do about a value out of bounds

	NoFlag bool // secrets don't belong on a command line
}

// Env is the field's variable: SCHED_SLOTS_CEILING.
func (f Field) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(f.Key, ".", "_"))
}

// Flag is the field's flag without the dashes: slots-ceiling.
func (f Field) Flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(f.Key)
}

// IsSecret reports whether the field's text must not be shown, and may come
// from the file that Env + "_FILE" names.
func (f Field) IsSecret() bool {
	switch valueAt(&Sidecar{}, f.Key).Interface().(type) {
	case DSN, Secret, []Secret:
		return true
	default:
		return false
	}
}

// Allowed says what the field may hold.
func (f Field) Allowed() string {
	if f.Min == f.Max {
		return f.Values
	}
	show := func(n float64) string {
		if valueAt(&Sidecar{}, f.Key).Type() == reflect.TypeFor[time.Duration]() {
			return showDuration(time.Duration(n))
		}

		return strconv.FormatFloat(n, 'f', -1, 64)
	}

	return show(f.Min) + " to " + show(f.Max)
}

// Section is a group of fields under one heading of docs/config.md.
type Section struct {
	Title  string
	Fields []Field
}

// Fields returns every key.
func Fields() []Field {
	var all []Field
	for _, s := range Sections() {
		all = append(all, s.Fields...)
	}

	return all
}

// Keys returns every key's name.
func Keys() []string {
	var keys []string
	for _, f := range Fields() {
		keys = append(keys, f.Key)
	}

	return keys
}

// valueAt returns the settable struct field whose koanf path is key. It panics
// on a key that isn't in the struct: the tables are held together by a test.
func valueAt(c *Sidecar, key string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for part := range strings.SplitSeq(key, ".") {
		v = childTagged(v, part)
	}

	return v
}

func childTagged(v reflect.Value, tag string) reflect.Value {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("koanf") == tag {
			return v.Field(i)
		}
	}
	panic("config: no field is tagged " + strconv.Quote(tag) + " in " + v.Type().String())
}
