package audit

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed *.sql
var files embed.FS

// ErrMalformed is returned by [Questions] for a file whose header can't be read.
var ErrMalformed = errors.New("malformed audit")

// ErrBadValue is returned by [Question.Bind] for a parameter that is unknown,
// missing or of the wrong form.
var ErrBadValue = errors.New("bad parameter")

// Type is what a parameter holds.
type Type string

// The types of parameters.
const (
	Time    Type = "time"    // a time, or so long ago
	Text    Type = "text"    // anything; empty is none
	Integer Type = "integer" // a whole number within Min and Max
	ID      Type = "id"      // a task's id
)

// Defaults that stand for no value.
const (
	none     = "-" // NULL: does not narrow
	required = "!" // must be given
)

// Param is a parameter of a question.
type Param struct {
	Name     string
	Type     Type
	Default  string // as one would write it; empty: none
	Required bool
	Doc      string
	Min, Max int64 // of an Integer
}

// Question is a statement that answers one question over the views of the schema.
type Question struct {
	Name   string // as the file's
	Title  string // the question itself
	Doc    string // what the answer has
	Bounds string // what it reads at most
	Params []Param
	SQL    string // parameters as pgx's named arguments, @name
}

// Questions returns all of them in the order of their names.
func Questions() ([]Question, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	list := make([]Question, len(names))
	for i, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if list[i], err = parse(strings.TrimSuffix(name, ".sql"), string(text)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// parse reads a file: a header of comments, in paragraphs, and the statement.
func parse(name, text string) (Question, error) {
	q := Question{Name: name}
	var header []string
	lines := strings.Split(text, "\n")
	for len(lines) > 0 && strings.HasPrefix(lines[0], "--") {
		header = append(header, strings.TrimSpace(strings.TrimPrefix(lines[0], "--")))
		lines = lines[1:]
	}
	q.SQL = strings.TrimSpace(strings.Join(lines, "\n"))
	for _, paragraph := range strings.Split(strings.Join(header, "\n"), "\n\n") {
		paragraph = strings.TrimSpace(paragraph)
		switch {
		case q.Title == "":
			q.Title = paragraph
		case strings.HasPrefix(paragraph, "Bounds: "):
			q.Bounds = unwrap(strings.TrimPrefix(paragraph, "Bounds: "))
		case strings.HasPrefix(paragraph, "Parameters:\n"):
			for line := range strings.SplitSeq(strings.TrimPrefix(paragraph, "Parameters:\n"), "\n") {
				param, err := parseParam(line)
				if err != nil {
					return q, fmt.Errorf("%w %s: %w", ErrMalformed, name, err)
				}
				q.Params = append(q.Params, param)
			}
		default:
			q.Doc = unwrap(paragraph)
		}
	}
	if !strings.HasSuffix(q.Title, "?") || q.Doc == "" || q.Bounds == "" || len(q.Params) == 0 || q.SQL == "" {
		return q, fmt.Errorf("%w %s: it needs a question, what the answer has, Parameters:, Bounds: and a statement", ErrMalformed, name)
	}
	return q, nil
}

func unwrap(text string) string { return strings.Join(strings.Fields(text), " ") }

func parseParam(line string) (Param, error) {
	const columns = 4
	fields := strings.Fields(line)
	if len(fields) < columns {
		return Param{}, fmt.Errorf("%q: a parameter needs a name, a type, a default and its meaning", line)
	}
	p := Param{Name: fields[0], Type: Type(fields[1]), Default: fields[2], Doc: strings.Join(fields[3:], " ")}
	if p.Default == none || p.Default == required {
		p.Required = p.Default == required
		p.Default = ""
	}
	switch p.Type {
	case Time, Text, ID:
	case Integer:
		m := regexp.MustCompile(`^(\d+) to (\d+) `).FindStringSubmatch(p.Doc)
		if m == nil {
			return p, fmt.Errorf("%q: an integer's meaning begins with its range, such as 1 to 100", line)
		}
		p.Min, _ = strconv.ParseInt(m[1], 10, 64) // digits
		p.Max, _ = strconv.ParseInt(m[2], 10, 64)
	default:
		return p, fmt.Errorf("%q: unknown type %s", line, p.Type)
	}
	return p, nil
}

// Bind gives the statement's arguments for the values of some parameters, the
// others having their defaults. readTime reads a time or how long ago one was.
func (q Question) Bind(values map[string]string, readTime func(string) (time.Time, error)) (map[string]any, error) {
	for name := range values {
		if !slices.ContainsFunc(q.Params, func(p Param) bool { return p.Name == name }) {
			return nil, fmt.Errorf("%w: %s has none called %q: it has %s", ErrBadValue, q.Name, name, q.paramNames())
		}
	}
	args := make(map[string]any, len(q.Params))
	for _, p := range q.Params {
		text, given := values[p.Name]
		if !given {
			text = p.Default
		}
		value, err := p.read(text, readTime)
		if err != nil {
			return nil, fmt.Errorf("%w %s of %s: %w", ErrBadValue, p.Name, q.Name, err)
		}
		args[p.Name] = value
	}
	return args, nil
}

func (q Question) paramNames() string {
	names := make([]string, len(q.Params))
	for i, p := range q.Params {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}

// read gives nil for no value.
func (p Param) read(text string, readTime func(string) (time.Time, error)) (any, error) {
	if text == "" {
		if p.Required {
			return nil, fmt.Errorf("it must be given: %s", p.Doc)
		}
		return nil, nil //nolint:nilnil // NULL
	}
	switch p.Type {
	case Time:
		return readTime(text)
	case Integer:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < p.Min || n > p.Max {
			return nil, fmt.Errorf("%q is not a whole number from %d to %d", text, p.Min, p.Max)
		}
		return n, nil
	case ID:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no task's id", text)
		}
		return n, nil
	default:
		return text, nil
	}
}
