package operator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line: args can be as large as a jsonb value.
const maxLine = 256 << 20

// line is a line of a stream of tasks.
type line struct {
	number int
	end    int64 // bytes of the stream up to its end
	text   []byte
}

// lineReader reads lines of any length, up to maxLine.
type lineReader struct {
	r      *bufio.Reader
	number int
	bytes  int64
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10)}
}

// next returns the next line without the space around it, or io.EOF. The text is
// the caller's.
func (r *lineReader) next() (line, error) {
	var text []byte
	r.number++
	for {
		part, err := r.r.ReadSlice('\n')
		r.bytes += int64(len(part))
		text = append(text, part...)
		switch {
		case len(text) > maxLine:
			return line{}, fmt.Errorf("%w line: it is longer than %d MiB", ErrInvalid, maxLine>>20)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(text) == 0:
			return line{}, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return line{}, err
		}
		if r.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		return line{number: r.number, end: r.bytes, text: bytes.TrimSpace(text)}, nil
	}
}

// prepareLine checks that a line is a JSON object and adds what it leaves out.
func prepareLine(text []byte, defaults map[string]any) ([]byte, error) {
	if text[0] == '[' {
		return nil, fmt.Errorf("%w: it is a JSON array; write one object a line, e.g. with jq -c '.[]'", ErrInvalid)
	}
	if text[0] != '{' {
		return nil, fmt.Errorf("%w: it is no JSON object", ErrInvalid)
	}
	if len(defaults) == 0 && json.Valid(text) {
		return text, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("%w: it is no JSON object: %w", ErrInvalid, err)
	}
	for name, value := range defaults {
		if _, given := object[name]; given {
			continue
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		object[name] = encoded
	}
	return json.Marshal(object)
}
