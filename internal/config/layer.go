package config

import (
	"maps"
	"slices"

	"github.com/knadh/koanf/v2"
)

// keyDelimiter stands between the parts of a key.
const keyDelimiter = "."

// layer is what one source sets: typed values by key, and where each stood.
type layer struct {
	values   map[string]any
	sources  map[string]string
	problems []Problem
}

func newLayer() *layer {
	return &layer{values: map[string]any{}, sources: map[string]string{}}
}

func (l *layer) set(key, source string, value any) {
	l.values[key] = value
	l.sources[key] = source
}

func (l *layer) complain(p Problem) {
	l.problems = append(l.problems, p)
}

// setText parses the text of a field and sets it, or complains.
func (l *layer) setText(f Field, source, text string) {
	v, err := parseText(valueAt(&Sidecar{}, f.Key).Type(), text)
	if err != nil {
		shown := text
		if f.IsSecret() {
			shown = redacted
		}
		l.complain(Problem{Key: f.Key, Value: quoteEmpty(shown), Source: source, What: err.Error()})

		return
	}
	l.set(f.Key, source, v)
}

// mergeInto puts the layer above what k holds already.
func (l *layer) mergeInto(k *koanf.Koanf) error {
	own := koanf.New(keyDelimiter)
	for _, key := range sortedKeys(l.values) {
		if err := own.Set(key, l.values[key]); err != nil {
			return err
		}
	}

	return k.Merge(own)
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

func quoteEmpty(s string) string {
	if s == "" {
		return `""`
	}

	return s
}
