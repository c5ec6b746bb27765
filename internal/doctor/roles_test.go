package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestRoles(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	healthy(t, look(t, dsn, "roles", Options{}), "roles sched_owner, sched_sidecar, sched_producer, sched_auditor have the rights")

	for _, tc := range []struct {
		breaks, mends, says string
		level               Level
	}{
		{"REVOKE USAGE ON SCHEMA sched FROM sched_producer", "GRANT USAGE ON SCHEMA sched TO sched_producer", "role sched_producer lacks rights that it needs: the schema", Failed},
		{"REVOKE UPDATE ON sched.river_job FROM sched_sidecar", "GRANT UPDATE ON sched.river_job TO sched_sidecar", "role sched_sidecar lacks rights that it needs: river_job", Failed},
		{"REVOKE SELECT ON sched.task FROM sched_auditor", "GRANT SELECT ON sched.task TO sched_auditor", "role sched_auditor lacks rights that it needs: task", Failed},
		{"GRANT SELECT ON sched.river_job TO sched_producer", "REVOKE SELECT ON sched.river_job FROM sched_producer", "role sched_producer may do more than it is for: river_job", Warning},
		{"GRANT DELETE ON sched.worker TO sched_auditor", "REVOKE DELETE ON sched.worker FROM sched_auditor", "role sched_auditor may do more than it is for: worker", Warning},
	} {
		exec(t, pool, tc.breaks)
		finding := ill(t, look(t, dsn, "roles", Options{}), tc.level)
		require.Contains(t, finding.Message, tc.says)
		require.Contains(t, finding.Advice, "sched migrate up")
		exec(t, pool, tc.mends)
	}
	exec(t, pool, "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA sched FROM sched_producer")
	require.Contains(t, ill(t, look(t, dsn, "roles", Options{}), Failed).Message, "enqueue()")
}

// Roles belong to the whole server, so that no test can take them away from the others.
func TestJudgeRoles(t *testing.T) {
	t.Parallel()
	some := []roleRights{{name: "sched_owner", exists: true}, {name: "sched_sidecar"}}
	require.Contains(t, ill(t, judgeRoles(some), Warning).Message, "there is no role sched_sidecar")
	healthy(t, judgeRoles([]roleRights{{name: "sched_owner"}}), "--no-roles")
}
