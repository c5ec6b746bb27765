package bench

import "errors"

// ErrFellShort is returned by [Report.Close] when a figure missed its bound.
var ErrFellShort = errors.New("a figure fell short of its bound")

// errNoProc is returned by the readers of /proc where there is none, or where
// the process is not on this machine.
var errNoProc = errors.New("no such process under /proc on this machine")
