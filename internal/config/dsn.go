package config

import (
	"net/url"
	"strings"
)

// RedactDSN returns a Postgres connection string, in URL or keyword/value form,
// with xxxxx for every password. It must not leak from a string that is wrong,
// too: where it can't tell the password's end it hides more, and what is no
// connection string at all it hides whole.
func RedactDSN(dsn string) string {
	for _, scheme := range []string{"postgres://", "postgresql://"} {
		if rest, ok := strings.CutPrefix(dsn, scheme); ok {
			return scheme + redactURLTail(rest)
		}
	}
	if strings.TrimSpace(dsn) == "" {
		return ""
	}
	if out, ok := redactKeywordValue(dsn); ok {
		return out
	}

	return redacted
}

// redactURLTail hides the password of what follows "postgres://". A password
// that should have been percent-encoded may hold any of "/?#@", so everything
// from the first colon to the last @ is taken for it.
func redactURLTail(s string) string {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		if colon := strings.IndexByte(s[:at], ':'); colon >= 0 {
			s = s[:colon+1] + redacted + s[at:]
		}
	} else if colon := misplacedPassword(s); colon >= 0 {
		return s[:colon+1] + redacted
	}

	// Parameters, wherever a separator stands: an @ in one of them may have
	// taken the question mark with it.
	var b strings.Builder
	for s != "" {
		end := strings.IndexAny(s[1:], "?&") + 1
		if end == 0 {
			end = len(s)
		}
		part := s[:end]
		s = s[end:]

		key, _, hasValue := strings.Cut(part, "=")
		if hasValue && isSecretKey(strings.TrimLeft(key, "?&")) {
			part = key + "=" + redacted
		}
		b.WriteString(part)
	}

	return b.String()
}

// misplacedPassword returns the colon after which s, without an @, has something
// that is no port, as in "postgres://user:secret"; -1 when there is none.
func misplacedPassword(s string) int {
	authority := s
	if end := strings.IndexAny(s, "/?#"); end >= 0 {
		authority = s[:end]
	}
	at := 0
	for host := range strings.SplitSeq(authority, ",") {
		name, port, hasPort := strings.Cut(host, ":")
		if hasPort && !strings.HasPrefix(host, "[") && strings.Trim(port, "0123456789") != "" {
			return at + len(name)
		}
		at += len(host) + 1
	}

	return -1
}

// redactKeywordValue hides the passwords of "host=db password='a b'". It reports
// false when s doesn't follow libpq's grammar.
func redactKeywordValue(s string) (string, bool) {
	var b strings.Builder
	for {
		spaces := len(s) - len(strings.TrimLeft(s, " \t\n\r\f\v"))
		b.WriteString(s[:spaces])
		s = s[spaces:]
		if s == "" {
			return b.String(), true
		}

		eq := strings.IndexByte(s, '=')
		if eq < 0 {
			return "", false
		}
		key := strings.TrimSpace(s[:eq])
		if !isParameterName(key) {
			return "", false
		}
		value := strings.TrimLeft(s[eq+1:], " \t\n\r\f\v")
		end := valueEnd(value)
		if end < 0 {
			return "", false
		}

		if isSecretKey(key) {
			b.WriteString(key + "=" + redacted)
		} else {
			b.WriteString(key + "=" + value[:end])
		}
		s = value[end:]
	}
}

// isParameterName reports whether a parameter of Postgres or of its clients may have a name. What is no name may be a URL
// without its scheme, with a password in it.
func isParameterName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == ""
}

// valueEnd returns where the value that s begins with ends: after its closing
// quote, or before the next space; -1 when a quote is left open.
func valueEnd(s string) int {
	quoted := strings.HasPrefix(s, "'")
	start := 0
	if quoted {
		start = 1
	}
	for i := start; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case quoted && s[i] == '\'':
			return i + 1
		case !quoted && strings.IndexByte(" \t\n\r\f\v", s[i]) >= 0:
			return i
		}
	}
	if quoted {
		return -1
	}

	return len(s)
}

// isSecretKey reports whether a connection parameter holds a secret: password,
// sslpassword, oauth_client_secret, scram_client_key and their like.
func isSecretKey(key string) bool {
	if plain, err := url.QueryUnescape(key); err == nil {
		key = plain
	}
	key = strings.ToLower(key)

	return strings.Contains(key, "password") || strings.Contains(key, "secret") || strings.HasPrefix(strings.TrimSpace(key), "scram_")
}
