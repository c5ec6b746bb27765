package config

import "log/slog"

// redacted stands for a secret, in the way that url.URL.Redacted shows one.
const redacted = "xxxxx"

// Secret is a text that is never shown: it prints, logs and marshals as xxxxx.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String hides the secret; an empty one shows as empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}

	return redacted
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the secret from JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// DSN is a Postgres connection string. It prints, logs and marshals without its
// password; see [RedactDSN].
type DSN string

// Reveal returns the connection string with its password.
func (d DSN) Reveal() string { return string(d) }

// String returns the connection string without its password.
func (d DSN) String() string { return RedactDSN(string(d)) }

// GoString hides the password from %#v.
func (d DSN) GoString() string { return `"` + d.String() + `"` }

// LogValue hides the password from slog.
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.String()) }

// MarshalText hides the password from JSON and YAML.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
