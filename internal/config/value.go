package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// parseText turns the text of a variable or flag into the type of a field.
func parseText(want reflect.Type, text string) (any, error) {
	text = strings.TrimSpace(text)
	switch reflect.Zero(want).Interface().(type) {
	case string:
		return text, nil
	case DSN:
		return DSN(text), nil
	case Secret:
		return Secret(text), nil
	case []Secret:
		return parseSecrets(text), nil
	case []string:
		return parseList(text), nil
	case map[string]string:
		return parsePairs(text)
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, errors.New("must be true or false")
		}

		return b, nil
	case int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, errors.New("must be a whole number, in digits")
		}

		return n, nil
	case int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errors.New("must be a whole number, in digits")
		}

		return n, nil
	case float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, errors.New("must be a number")
		}

		return n, nil
	case time.Duration:
		return parseDuration(text)
	default:
		panic("config: no parser for " + want.String())
	}
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		if _, numErr := strconv.ParseFloat(text, 64); numErr == nil {
			return 0, fmt.Errorf("is a number without a unit; write a duration such as %ss, %sms or 1m30s", text, text)
		}

		return 0, errors.New("is not a duration; write one such as 500ms, 30s or 1m30s")
	}

	return d, nil
}

// parseSecrets splits at commas and white space: neither is in base64.
func parseSecrets(text string) []Secret {
	var secrets []Secret
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' }) {
		secrets = append(secrets, Secret(part))
	}

	return secrets
}

func parseList(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}

	return list
}

func parsePairs(text string) (map[string]string, error) {
	pairs := map[string]string{}
	for _, part := range parseList(text) {
		key, value, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			return nil, fmt.Errorf("%q is not key=value; write zone=a,gpu=yes", part)
		}
		if _, twice := pairs[key]; twice {
			return nil, fmt.Errorf("gives %q twice", key)
		}
		pairs[key] = strings.TrimSpace(value)
	}

	return pairs, nil
}

// showValue writes a field's value as docs, errors and flags show it, secrets
// redacted.
func showValue(v any) string {
	switch v := v.(type) {
	case []Secret:
		return strings.TrimSuffix(strings.Repeat(redacted+",", len(v)), ",")
	case []string:
		return strings.Join(v, ",")
	case map[string]string:
		var pairs []string
		for _, key := range sortedKeys(v) {
			pairs = append(pairs, key+"="+v[key])
		}

		return strings.Join(pairs, ",")
	case time.Duration:
		return showDuration(v)
	default:
		return fmt.Sprint(v)
	}
}

// showDuration writes 5m for Go's 5m0s.
func showDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}

	return s
}
