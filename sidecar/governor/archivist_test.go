package governor

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// shelf answers the archive's statements as it is told to, and keeps what was asked.
type shelf struct {
	waiting bool
	err     error
	rows    []dbq.ArchiveTasksRow
	asked   []dbq.ArchiveTasksParams
	months  int
}

func (s *shelf) ArchiveTasks(_ context.Context, arg dbq.ArchiveTasksParams) ([]dbq.ArchiveTasksRow, error) {
	s.asked = append(s.asked, arg)
	return s.rows, s.err
}

func (s *shelf) ArchiveMonths(context.Context) (dbq.ArchiveMonthsRow, error) {
	s.months++
	return dbq.ArchiveMonthsRow{Waiting: s.waiting}, nil
}

func (s *shelf) lead(t *testing.T, time time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time)
	defer cancel()
	newArchivist(s, slog.New(slog.DiscardHandler), prometheus.NewRegistry()).run(ctx)
}

func TestArchivistGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		last := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
		s := &shelf{rows: []dbq.ArchiveTasksRow{{Status: "completed", Seen: 3, Moved: 3, Last: last}}}
		s.lead(t, archiveFirst+14*time.Second)
		require.Len(t, s.asked, 2)
		require.Equal(t, []time.Time{{}, {}, {}}, s.asked[0].Since)
		require.Equal(t, []time.Time{last, {}, {}}, s.asked[1].Since)
		require.Equal(t, []string{"completed", "cancelled", "discarded"}, s.asked[1].Statuses)

		s.rows = nil
		s.lead(t, 6*time.Minute)
		require.Equal(t, 6, s.months-1, "each minute, and at the start")
	})
}

// Tasks that stay for their unique key are looked at again every five minutes, not each time.
func TestArchivistPassesWhatStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		last := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
		s := &shelf{rows: []dbq.ArchiveTasksRow{{Status: "completed", Seen: 10, Moved: 0, Last: last}}}
		s.lead(t, archiveFirst+24*time.Second)
		require.Equal(t, last, s.asked[1].Since[0])
		require.Equal(t, last.Add(time.Microsecond), s.asked[2].Since[0], "all of them ended at once")
		s.asked = nil
		s.lead(t, 6*time.Minute)
		anew := 0
		for _, asked := range s.asked {
			if asked.Since[0].IsZero() {
				anew++
			}
		}
		require.Equal(t, 2, anew)
	})
}

func TestArchivistTriesLessAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{err: errors.New("statement timeout")}
		s.lead(t, 2*time.Minute)
		require.EqualValues(t, archiveMost, s.asked[0].Max)
		require.EqualValues(t, archiveMost/2, s.asked[1].Max)
		require.EqualValues(t, archiveLeast, s.asked[len(s.asked)-1].Max)
	})
}

// What is archived before its month has a partition stays in the default one: better to wait a while.
func TestArchivistWaitsForItsPartitions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{waiting: true}
		s.lead(t, archivePatience-time.Second)
		require.Empty(t, s.asked)
		require.Greater(t, s.months, 50)
		s.lead(t, archivePatience+archiveRest)
		require.NotEmpty(t, s.asked, "but not for ever")
	})
}
