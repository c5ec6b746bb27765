package governor

import (
	"context"
	"log/slog"
)

// quietHandler passes on River's warnings and errors only: its news is about
// the one artificial queue, and the governor reports on the real ones.
type quietHandler struct{ slog.Handler }

// Enabled reports whether River's record is worth its line.
func (h quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// WithAttrs keeps the filter.
func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the filter.
func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}
