package routing

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrIllegalMove is returned by [Lifecycle.Move] and [Registry.Move] for a move
// that leads back, out of an end, or nowhere.
var ErrIllegalMove = errors.New("illegal move")

// ErrMoved is returned by [Lifecycle.Move] when the registration isn't any more
// where the caller took it to be.
var ErrMoved = errors.New("it was moved meanwhile")

// State is a registration's place in its lifecycle, which only moves forward:
// pending → active → draining → done, or evicted from any of the first three.
// Steps may be left out, as by a worker that is told to drain before it began.
type State string

// The states of a registration.
const (
	StatePending  State = "pending"
	StateActive   State = "active"
	StateDraining State = "draining"
	StateDone     State = "done"
	StateEvicted  State = "evicted"
)

// stage counts the states up; both ends are the last. -1 for what is no state.
func (s State) stage() int {
	if s == StateEvicted {
		s = StateDone
	}
	return slices.Index([]State{StatePending, StateActive, StateDraining, StateDone}, s)
}

// Ended reports whether nothing comes after s.
func (s State) Ended() bool { return s == StateDone || s == StateEvicted }

// checkMove returns an [ErrIllegalMove] unless a registration may go from one state
// to the other. The database refuses the same moves, by whoever they are made.
func checkMove(from, to State) error {
	switch {
	case from.stage() < 0:
		return fmt.Errorf("%w: %q is no state of a worker", ErrIllegalMove, from)
	case to.stage() < 0:
		return fmt.Errorf("%w: %q is no state of a worker", ErrIllegalMove, to)
	case from.Ended():
		return fmt.Errorf("%w from %s to %s: what has ended stays so; a sidecar registers anew", ErrIllegalMove, from, to)
	case to.stage() <= from.stage():
		return fmt.Errorf("%w from %s to %s: it only goes forward, pending, active, draining, done", ErrIllegalMove, from, to)
	}
	return nil
}

// Lifecycle is where one registration is, as its own process has it. It moves by
// compare and swap, and counts its moves. Safe for concurrent use.
type Lifecycle struct {
	mu      sync.Mutex
	state   State
	version int64
}

// NewLifecycle returns one that is pending.
func NewLifecycle() *Lifecycle { return &Lifecycle{state: StatePending} }

// State returns where it is, and how often it has moved.
func (l *Lifecycle) State() (state State, version int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.version
}

// Move takes it from one state to another. It returns an [ErrIllegalMove], or
// [ErrMoved] when it is not in from.
func (l *Lifecycle) Move(from, to State) error {
	if err := checkMove(from, to); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != from {
		return fmt.Errorf("not moved from %s to %s: %w, to %s", from, to, ErrMoved, l.state)
	}
	l.state = to
	l.version++
	return nil
}
