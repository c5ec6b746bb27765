package sizer

import (
	"math"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sched-sidecar/sched/sql/dbq"
)

func float4(v float64) pgtype.Float4 { return pgtype.Float4{Float32: float32(v), Valid: true} }

// news reports whether a row says something else than what was written last.
func (s *Sizer) news(row dbq.WorkerElasticParams) bool {
	return row.ID != s.said.ID || row.ScaleOut != s.said.ScaleOut || row.Reason != s.said.Reason ||
		moved(s.said.Demand, row.Demand) || moved(s.said.Arrivals, row.Arrivals) || moved(s.said.Forecast, row.Forecast) || moved(s.said.Score, row.Score) ||
		moved(s.said.ScoreCpu, row.ScoreCpu) || moved(s.said.ScoreMem, row.ScoreMem) || moved(s.said.ScorePending, row.ScorePending)
}

// moved reports whether a number changed by a tenth, or came to be nothing or
// something: by that a fleet is scaled to zero and back.
func moved(before, now pgtype.Float4) bool {
	const trace = 0.01
	least := max(publishStep*math.Abs(float64(before.Float32)), trace)
	return before.Valid != now.Valid || (before.Float32 == 0) != (now.Float32 == 0) || math.Abs(float64(before.Float32-now.Float32)) >= least
}
