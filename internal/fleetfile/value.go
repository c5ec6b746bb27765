package fleetfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Type is what a key holds.
type Type uint8

// The types, and what holds their values in [Values].
const (
	Text     Type = iota // string
	Integer              // int64
	Number               // float64 with the precision of a real
	Duration             // time.Duration in whole microseconds
	Flag                 // bool
	Labels               // map[string]string
	JSON                 // what encoding/json makes of any
)

// Values are what an entry sets, by key.
type Values map[string]any

// check says what is wrong with a value of the right type; empty when nothing is.
func (f Field) check(v any) string {
	if f.Type == JSON {
		return ""
	}
	switch v := v.(type) {
	case string:
		return f.checkText(v)
	case int64:
		if float64(v) < f.Min || float64(v) > f.Max {
			return fmt.Sprintf("must be %.0f to %.0f", f.Min, f.Max)
		}
	case float64:
		if !(v >= f.Min) || !(v <= f.Max) || (f.BelowMax && v >= f.Max) {
			return fmt.Sprintf("must be %s to %s%s", plain(f.Min), map[bool]string{true: "under "}[f.BelowMax], plain(f.Max))
		}
	case time.Duration:
		if float64(v) < f.Min || float64(v) > f.Max {
			return fmt.Sprintf("must be %s to %s", showDuration(time.Duration(f.Min)), showDuration(time.Duration(f.Max)))
		}
		if v%leastResolution != 0 {
			return "must be in whole microseconds"
		}
	case map[string]string:
		return checkLabels(v)
	}
	return ""
}

// plain writes a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// orDefault returns what values set, else the default.
func (f Field) orDefault(values Values) any {
	if v, set := values[f.Key]; set {
		return v
	}
	return f.Default
}

// Parse reads a text, a number or a flag as a person types it. Of the other types
// it reads none.
func (f Field) Parse(text string) (any, error) {
	var v any
	var err error
	switch f.Type {
	case Text:
		v = text
	case Integer:
		if v, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, errors.New("must be a whole number")
		}
	case Number:
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, errors.New("must be a number")
		}
		v = asReal(number)
	case Flag:
		if v, err = strconv.ParseBool(text); err != nil {
			return nil, errors.New("must be true or false")
		}
	case Duration, Labels:
		return nil, errors.New("can only be given in a file")
	}
	if what := f.check(v); what != "" {
		return nil, errors.New(what)
	}
	return v, nil
}

func (f Field) checkText(v string) string {
	if f.Enum != nil {
		if !slices.Contains(f.Enum, v) {
			return "must be " + strings.Join(f.Enum, ", ")
		}
		return ""
	}
	if n := utf8.RuneCountInString(v); float64(n) < f.Min || float64(n) > f.Max {
		return fmt.Sprintf("must have %.0f to %.0f characters", f.Min, f.Max)
	}
	if f.Pattern != "" && !regexp.MustCompile(f.Pattern).MatchString(v) {
		return "must be " + f.Shape
	}
	if strings.ContainsRune(v, 0) {
		return "must not have a zero character"
	}
	return ""
}

func checkLabels(pairs map[string]string) string {
	if len(pairs) > maxPairs {
		return fmt.Sprintf("has %d pairs; at most %d are allowed", len(pairs), maxPairs)
	}
	for _, name := range sortedNames(pairs) {
		if n := utf8.RuneCountInString(name); n < 1 || n > maxLabel || strings.ContainsFunc(name, isControl) {
			return fmt.Sprintf("has the name %q; names have 1 to %d characters and no control characters", name, maxLabel)
		}
		if utf8.RuneCountInString(pairs[name]) > maxLabelValue || strings.ContainsFunc(pairs[name], isControl) {
			return fmt.Sprintf("has for %s a value with over %d characters, or a control character", name, maxLabelValue)
		}
	}
	return ""
}

func isControl(r rune) bool { return r < 0x20 || (r >= 0x7f && r <= 0x9f) }

// asReal is a number as a column of type real keeps it.
func asReal(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', -1, 32), 64)
	if err != nil { // out of its range: the check says so
		return v
	}
	return r
}

// fromJSON reads a value as the database's JSON has it: durations are
// microseconds.
func (f Field) fromJSON(raw json.RawMessage) (any, error) {
	var err error
	switch f.Type {
	case Text:
		var v string
		err = json.Unmarshal(raw, &v)
		return v, err
	case Integer:
		var v int64
		err = json.Unmarshal(raw, &v)
		return v, err
	case Number:
		var v float64
		err = json.Unmarshal(raw, &v)
		return asReal(v), err
	case Duration:
		var v int64
		err = json.Unmarshal(raw, &v)
		return time.Duration(v) * time.Microsecond, err
	case Flag:
		var v bool
		err = json.Unmarshal(raw, &v)
		return v, err
	case JSON:
		var v any
		err = json.Unmarshal(raw, &v)
		return v, err
	default:
		var v map[string]string
		err = json.Unmarshal(raw, &v)
		return v, err
	}
}

// toJSON is what the database is given for values.
func (v Values) toJSON() ([]byte, error) {
	plain := make(map[string]any, len(v))
	for key, value := range v {
		if d, ok := value.(time.Duration); ok {
			value = d.Microseconds()
		}
		plain[key] = value
	}
	return json.Marshal(plain)
}

// Show writes a value for people; nil is not set.
func Show(v any) string {
	switch v := v.(type) {
	case nil:
		return "not set"
	case string:
		if v == "" || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || isControl(r) }) {
			return strconv.Quote(v)
		}
		return v
	case time.Duration:
		return showDuration(v)
	case map[string]string:
		if len(v) == 0 {
			return "{}"
		}
		return showLabels(v)
	case map[string]any, []any:
		text, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		return string(text)
	default:
		return fmt.Sprint(v)
	}
}

func sortedNames(pairs map[string]string) []string { return slices.Sorted(maps.Keys(pairs)) }

func showLabels(pairs map[string]string) string {
	parts := make([]string, 0, len(pairs))
	for _, name := range sortedNames(pairs) {
		parts = append(parts, Show(name)+"="+Show(pairs[name]))
	}
	return strings.Join(parts, ",")
}

// showDuration writes 5m for Go's 5m0s.
func showDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"0s", "0m"} {
		if cut := strings.TrimSuffix(text, zero); cut != text && strings.HasSuffix(cut, map[string]string{"0s": "m", "0m": "h"}[zero]) {
			text = cut
		}
	}
	return text
}

// MarshalJSON writes durations as in a file.
func (v Values) MarshalJSON() ([]byte, error) {
	plain := make(map[string]any, len(v))
	for key, value := range v {
		plain[key] = forJSON(value)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(plain)
	return b.Bytes(), err
}

func forJSON(v any) any {
	if d, ok := v.(time.Duration); ok {
		return showDuration(d)
	}
	return v
}
