package mainjob_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lostAnswer marks, in the stream to the sidecar, the commit of a settle or claim.
const lostAnswer = "mainjob: lose the answer to this"

// The conditions of mark.
const (
	settles = "old.state = 'running' AND new.state <> 'running'"
	claims  = "old.state <> 'running' AND new.state = 'running'"
)

// mark makes Postgres say lostAnswer whenever a transaction that changes a task
// of this kind so commits: a deferred trigger runs when the commit has been
// asked for, so the sidecar's words have all arrived and only the answer is
// still to come.
func (f *fleet) mark(kind, change string) {
	f.t.Helper()
	_, err := f.db.Exec(f.t.Context(), `
		CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING '`+lostAnswer+`'; RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER mark AFTER UPDATE ON sched.river_job DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW WHEN (`+change+` AND new.kind = '`+kind+`') EXECUTE FUNCTION mark()`)
	require.NoError(f.t, err)
}

func TestSettleWithLostAnswerIsReplayed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.mark("once", settles)
	a := newApp(t, func(*call) answer { return answer{status: http.StatusOK, body: `{"kept": true}`} })
	cable := newWire(t, f.dsn)
	s := startSidecar(t, cable.dsn, a.url, quick())

	for range 5 {
		replayed := s.metric(t, metricReplayed)
		lost := cable.loseNext(lostAnswer)
		id := enqueue(t, f.db, "once")
		<-lost.done(t)
		k := awaitStatus(t, f.db, id, "completed", soon) // it was written
		lost.cut()

		// The sidecar, which doesn't know, writes it again: nothing changes.
		s.awaitReplay(t, replayed)
		awaitStatus(t, f.db, enqueue(t, f.db, "another"), "completed", soon)
		require.Equal(t, k.String(), readTask(t, f.db, id).String())
		require.JSONEq(t, `{"kept": true}`, string(k.Output))
		require.Len(t, a.callsOf(id), 1)
		require.Len(t, readAttempts(t, f.db, id), 1)
	}
	require.Len(t, s.workers(t, f.db), 1, "a lost answer is no reason to register anew")
	require.Zero(t, s.metric(t, metricRefused), "a replay isn't a lost lease")
}

// awaitReplay waits until the sidecar knows of a settle that it wrote twice.
func (s *sidecar) awaitReplay(t *testing.T, before float64) {
	t.Helper()
	eventually(t, soon, func() bool { return s.metric(t, metricReplayed) > before }, func() string { return "no settle was replayed" })
}

// The answer to an attempt's settle is lost, and the same worker claims the
// task's next attempt before it tries again: the replay must not end that one.
func TestReplayedSettleSparesTheNextAttempt(t *testing.T) {
	t.Parallel()
	firstAnswers := map[string]answer{
		"retry":  {status: http.StatusInternalServerError, body: "the first fails"},
		"snooze": {status: http.StatusServiceUnavailable, header: map[string]string{"Retry-After": "1"}},
	}
	for name, firstAnswer := range firstAnswers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.startLeader() // promotes while the sidecar's connection is dead
			f.mark("twice", settles)
			second := newTurnstile(t)
			a := newApp(t, nil)
			a.handle = func(c *call) answer {
				if len(a.callsOf(c.id)) == 1 {
					return firstAnswer
				}
				second.pass(c)
				return answer{status: http.StatusOK, body: `{"attempt": 2}`}
			}
			cable := newWire(t, f.dsn)
			s := startSidecar(t, cable.dsn, a.url, quick())

			for range 3 {
				replayed := s.metric(t, metricReplayed)
				lost := cable.loseNext(lostAnswer)
				id := enqueue(t, f.db, "twice")
				<-lost.done(t)
				next := a.await(t, id, 2, soon)
				lost.cut()

				require.Equal(t, a.callsOf(id)[0].worker(), next.worker(), "the test wants both attempts on one worker")
				require.NotEqual(t, a.callsOf(id)[0].lease, next.lease)
				stillRuns := func() bool {
					k := readTask(t, f.db, id)
					return k.Status == "running" && text(k.WorkerID) == next.worker() && !next.gone()
				}
				s.awaitReplay(t, replayed)
				throughout(t, 300*time.Millisecond, stillRuns, func() string {
					return "the replay touched the second attempt: " + readTask(t, f.db, id).String()
				})
				second.open(id)
				k := awaitStatus(t, f.db, id, "completed", soon)
				require.JSONEq(t, `{"attempt": 2}`, string(k.Output))
				require.Len(t, a.callsOf(id), 2)
				require.Equal(t, []string{name, "completed"}, outcomes(readAttempts(t, f.db, id)))
			}
			require.Len(t, s.workers(t, f.db), 1, "a lost answer is no reason to register anew")
		})
	}
}

// The answer to a claim is lost: the tasks run in Postgres, and nobody knows of
// them.
func TestClaimWithLostAnswerIsMadeGood(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	f.mark("once", claims)
	a := newApp(t, nil)
	cable := newWire(t, f.dsn)
	s := startSidecar(t, cable.dsn, a.url, quick())
	for range 3 {
		lost := cable.loseNext(lostAnswer)
		ids := enqueueMany(t, f.db, "once", 5)
		<-lost.done(t)
		awaitStatus(t, f.db, ids[0], "running", soon)
		lost.cut()
		for _, id := range ids {
			k := awaitStatus(t, f.db, id, "completed", soon)
			require.Zero(t, k.Lost, "no worker died")
			require.Len(t, a.callsOf(id), 1)
			require.Equal(t, 1, a.callsOf(id)[0].attempt, "what never reached the app spends no attempt")
		}
	}
	require.Len(t, s.workers(t, f.db), 1)
}

// loss is one answer that a wire loses.
type loss struct {
	marker []byte
	heard  chan struct{}
	muted  func() // closes the connection that was muted
	stall  bool   // rather stall the wire, this answer included
}

// loseNext swallows the next answer that contains the marker, and all that
// follows on its connection, which stays open until cut.
func (w *wire) loseNext(marker string) *loss {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = &loss{marker: []byte(marker), heard: make(chan struct{})}
	return w.lose
}

// stallNext stalls the whole wire when it hears the marker: the answer is only
// late.
func (w *wire) stallNext(marker string) *loss {
	l := w.loseNext(marker)
	w.mu.Lock()
	defer w.mu.Unlock()
	l.stall = true
	return l
}

// done is closed when the answer has been lost.
func (l *loss) done(t *testing.T) <-chan struct{} {
	t.Helper()
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case <-l.heard:
	case <-timer.C:
		require.FailNow(t, "nothing came by whose answer could be lost")
	}
	return l.heard
}

// cut closes the muted connection: the sidecar learns that its answer is lost.
func (l *loss) cut() { l.muted() }

// loses reports whether this is the answer to lose.
func (w *wire) loses(answer []byte, closeBoth func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lose == nil || !bytes.Contains(answer, w.lose.marker) {
		return false
	}
	l := w.lose
	w.lose = nil
	if l.stall {
		w.mode = wireStalled
	}
	l.muted = closeBoth
	close(l.heard)
	return !l.stall
}
