package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// jsonMax is how much of a JSON value is shown, in bytes.
const jsonMax = 16 << 10

// formatTime shows a time by the database's clock, in UTC.
func formatTime(t any) string {
	switch t := t.(type) {
	case time.Time:
		return t.UTC().Format("2006-01-02 15:04:05.000") + " UTC"
	case *time.Time:
		if t != nil {
			return formatTime(*t)
		}
	}
	return ""
}

// ago says how long before now a time is, or how long after.
func ago(now time.Time, t any) string {
	var at time.Time
	switch t := t.(type) {
	case time.Time:
		at = t
	case *time.Time:
		if t == nil {
			return ""
		}
		at = *t
	}
	d := now.Sub(at)
	switch {
	case d < -time.Second:
		return "in " + roughly(-d)
	case d < time.Second:
		return "now"
	default:
		return roughly(d) + " ago"
	}
}

func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
}

// formatSeconds shows a length of time with the digits that matter.
func formatSeconds(v any) string {
	var s float64
	switch v := v.(type) {
	case float64:
		s = v
	case *float64:
		if v == nil {
			return "–"
		}
		s = *v
	}
	switch {
	case s < 0:
		return "–"
	case s < 0.001:
		return "< 1 ms"
	case s < 1:
		return fmt.Sprintf("%.0f ms", s*1000)
	case s < 10:
		return fmt.Sprintf("%.1f s", s)
	case s < 60:
		return fmt.Sprintf("%.0f s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", int(s)/60, int(s)%60)
	default:
		return fmt.Sprintf("%d h %d min", int(s)/3600, int(s)/60%60)
	}
}

// thousands groups digits by threes.
func thousands(v any) string {
	text := fmt.Sprint(v)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	var b strings.Builder
	for i, r := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteRune('\u202f') // a narrow space that doesn't break
		}
		b.WriteRune(r)
	}
	return sign + b.String()
}

// percent shows a part of 1.
func percent(v float64) string { return fmt.Sprintf("%.0f %%", v*100) }

// formatNumber shows a number that may not be known.
func formatNumber(v any) string {
	var f float64
	switch v := v.(type) {
	case *float64:
		if v == nil {
			return "–"
		}
		f = *v
	case float64:
		f = v
	case *int64:
		if v == nil {
			return "–"
		}
		return thousands(*v)
	default:
		return fmt.Sprint(v)
	}
	if math.Abs(f) >= 100 {
		return thousands(int64(math.Round(f)))
	}
	return strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64)
}

// bar is a horizontal bar of 100 units: how much is used, of how much that is open.
type bar struct {
	Used, Open float64
	Full       bool
}

func newBar(used, open, of int) bar {
	if of <= 0 {
		return bar{}
	}
	part := func(n int) float64 { return math.Round(1000*min(1, float64(max(0, n))/float64(of))) / 10 }
	return bar{Used: part(used), Open: part(open), Full: open > 0 && used >= open}
}

// prettyJSON indents a value, and cuts a long one.
func prettyJSON(value json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, value, "", "  ") != nil {
		return string(value)
	}
	if out.Len() > jsonMax {
		cut := out.Bytes()[:jsonMax]
		for len(cut) > 0 && !utf8.Valid(cut) {
			cut = cut[:len(cut)-1]
		}
		return fmt.Sprintf("%s\n… %d bytes in all", cut, len(value))
	}
	return out.String()
}

// link is the address of a thing's page.
func link(section string, name any) template.URL {
	return template.URL(Path + "/" + section + "/" + url.PathEscape(fmt.Sprint(name))) //nolint:gosec // escaped, and below our own path
}

// short cuts a text at a number of characters.
func short(most int, text string) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	runes := []rune(text)
	return string(runes[:most-1]) + "…"
}

// change is what was changed of a column.
type change struct{ Key, From, To string }

// changesOf sets what was and what is side by side.
func changesOf(before, after string) []change {
	was, is := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if json.Unmarshal([]byte(before), &was) != nil || json.Unmarshal([]byte(after), &is) != nil {
		return []change{{From: short(200, before), To: short(200, after)}}
	}
	all := maps.Clone(was)
	maps.Copy(all, is)
	var changes []change
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if bytes.Equal(was[key], is[key]) {
			continue
		}
		changes = append(changes, change{key, plain(was[key]), plain(is[key])})
	}
	return changes
}

// plain shows a JSON value as a person would write it.
func plain(value json.RawMessage) string {
	var text string
	switch {
	case len(value) == 0 || string(value) == "null":
		return "–"
	case json.Unmarshal(value, &text) == nil:
		return short(200, text)
	default:
		return short(200, string(value))
	}
}

// decisionMood is the shape that goes with a decision.
func decisionMood(what, to string) mood {
	switch what {
	case "pressure":
		return mood{pressureMood(to).Shape, what}
	case "evict":
		return mood{"bad", what}
	case "unroutable":
		if to == "" {
			return mood{"ok", what}
		}
		return mood{"bad", what}
	case "health":
		return mood{map[string]string{"good": "ok", "strained": "warn", "overloaded": "bad"}[to], what}
	default:
		return mood{"off", what}
	}
}
