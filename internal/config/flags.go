package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// flagConfig is the flag that names the file.
const flagConfig = "config"

// AddFlags gives fs a flag for --config and one for each field that has one.
// "--dsn" is a second name of --database-url. Help lists them in the order of
// the table.
func AddFlags(fs *pflag.FlagSet) {
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "dsn" {
			name = "database-url"
		}

		return pflag.NormalizedName(name)
	})
	fs.SortFlags = false
	fs.String(flagConfig, "", "YAML file to read ("+envConfig+")")

	defaults := DefaultSidecar()
	for _, f := range Fields() {
		if f.NoFlag {
			continue
		}
		v := valueAt(&defaults, f.Key)
		added := fs.VarPF(&flagValue{want: v.Type(), text: showValue(v.Interface())}, f.Flag(), "", fmt.Sprintf("%s (%s)", firstSentence(f.Doc), f.Env()))
		if v.Kind() == reflect.Bool {
			added.NoOptDefVal = "true"
		}
	}
}

// firstSentence is what a line of --help has room for.
func firstSentence(doc string) string {
	first, _, more := strings.Cut(doc, ". ")
	if more {
		first += "."
	}

	return first
}

// flagLayer reads the flags that were given.
func flagLayer(fs *pflag.FlagSet) *layer {
	l := newLayer()
	if fs == nil {
		return l
	}
	for _, f := range Fields() {
		flag := fs.Lookup(f.Flag())
		if flag == nil || !flag.Changed {
			continue
		}
		if v, ok := flag.Value.(*flagValue); ok {
			l.setText(f, "--"+f.Flag(), v.text)
		}
	}

	return l
}

// flagValue keeps the text of a flag: it is parsed with the other sources, so
// that its problems are reported with theirs.
type flagValue struct {
	want  reflect.Type
	text  string
	given bool
}

// String shows the text, and no password: pflag prints it as the default.
func (v *flagValue) String() string {
	if v.want == reflect.TypeFor[DSN]() {
		return RedactDSN(v.text)
	}

	return v.text
}

// Set takes the flag's text. A list or mapping that is given again grows.
func (v *flagValue) Set(text string) error {
	many := v.want != nil && (v.want.Kind() == reflect.Slice || v.want.Kind() == reflect.Map)
	if v.given && many {
		text = v.text + "," + text
	}
	v.text, v.given = text, true

	return nil
}

// Type names the value in --help.
func (v *flagValue) Type() string {
	switch reflect.Zero(v.want).Interface().(type) {
	case DSN:
		return "dsn"
	case []string:
		return "a,b"
	case map[string]string:
		return "key=value"
	case time.Duration:
		return "duration"
	default:
		return v.want.String()
	}
}
