package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is how deep an output's arrays and objects may be nested. Postgres
// parses jsonb by recursion, within max_stack_depth.
const MaxDepth = 512

// Limits of Postgres' numeric, in which jsonb keeps numbers.
const (
	maxIntegerDigits  = 131072
	maxFractionDigits = 16383
)

// ErrOutput says that Postgres could not store an output. [Output] returns it.
var ErrOutput = errors.New("output cannot be stored")

// Output reports whether raw can be stored as a task's output: valid JSON that
// jsonb accepts. It returns nil or an [ErrOutput] that says what to change.
func Output(raw []byte) error {
	if !json.Valid(raw) {
		var value json.RawMessage
		return fmt.Errorf("%w: not valid JSON: %w", ErrOutput, json.Unmarshal(raw, &value))
	}
	if !utf8.Valid(raw) {
		return fmt.Errorf("%w: not valid UTF-8; encode the JSON as UTF-8", ErrOutput)
	}
	return scan(raw)
}

// scan walks valid JSON and looks for what jsonb refuses all the same.
func scan(raw []byte) error {
	depth := 0
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			n, err := scanString(raw[i:])
			if err != nil {
				return fmt.Errorf("%w at byte %d", err, i)
			}
			i += n
		case c == '-' || c >= '0' && c <= '9':
			n := numberLen(raw[i:])
			if !fitsNumeric(raw[i : i+n]) {
				return fmt.Errorf("%w: the number at byte %d is beyond Postgres' numeric; send it as a string", ErrOutput, i)
			}
			i += n
		default:
			if c == '{' || c == '[' {
				depth++
			}
			if c == '}' || c == ']' {
				depth--
			}
			if depth > MaxDepth {
				return fmt.Errorf("%w: nested more than %d deep at byte %d; send it flatter, or as a string", ErrOutput, MaxDepth, i)
			}
			i++
		}
	}
	return nil
}

// scanString returns the length of the JSON string at the start of raw, quotes
// included.
func scanString(raw []byte) (int, error) {
	for i := 1; ; {
		switch raw[i] {
		case '"':
			return i + 1, nil
		case '\\':
			if raw[i+1] != 'u' {
				i += 2
				continue
			}
			n, err := scanUnicode(raw[i:])
			if err != nil {
				return 0, err
			}
			i += n
		default:
			i++
		}
	}
}

// scanUnicode returns the length of the \u escape, or pair of them, at the
// start of raw.
func scanUnicode(raw []byte) (int, error) {
	const single, pair = len(`\u0000`), len(`\ud800\udc00`)
	switch r := hexRune(raw[2:single]); {
	case r == 0:
		return 0, fmt.Errorf(`%w: Postgres has no \u0000; remove NUL characters from the string`, ErrOutput)
	case r < 0xD800 || r > 0xDFFF:
		return single, nil
	case r < 0xDC00 && len(raw) >= pair && raw[single] == '\\' && raw[single+1] == 'u':
		if low := hexRune(raw[single+2 : pair]); low >= 0xDC00 && low <= 0xDFFF {
			return pair, nil
		}
	}
	return 0, fmt.Errorf(`%w: half a surrogate pair (\ud800 to \udfff) in the string`, ErrOutput)
}

// hexRune reads four hexadecimal digits that a JSON parser has accepted.
func hexRune(digits []byte) rune {
	var r rune
	for _, c := range digits {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c)
	}
	return r
}

func numberLen(raw []byte) int {
	for i, c := range raw {
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			return i
		}
	}
	return len(raw)
}

// fitsNumeric says whether Postgres' numeric holds a JSON number. It counts
// leading zeros as digits, so it refuses a few that would just fit.
func fitsNumeric(number []byte) bool {
	integer, fraction, exponent := 0, 0, 0
	inFraction := false
	for i, c := range number {
		if c == 'e' || c == 'E' {
			e, err := strconv.Atoi(string(number[i+1:]))
			if err != nil || e > maxIntegerDigits || e < -maxFractionDigits {
				return false
			}
			exponent = e
			break
		}
		switch {
		case c == '.':
			inFraction = true
		case c == '-':
		case inFraction:
			fraction++
		default:
			integer++
		}
	}
	return integer+exponent <= maxIntegerDigits && fraction-exponent <= maxFractionDigits
}
