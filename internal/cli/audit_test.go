package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.enqueue("mail", "{}")
	f.exec(`UPDATE sched.setting SET value = '7' WHERE key = 'max_pending'`)

	out := f.ok("audit", "list")
	for _, name := range []string{"runs", "reruns", "waits", "failures", "enqueuers", "interventions", "dead-workers", "scaling", "unroutable", "latency", "story"} {
		require.Contains(t, out, name)
	}
	require.Contains(t, f.ok("audit", "list", "--json"), `{"name":"limit","type":"integer","default":"100","required":false,"description":"1 to 1000 tasks"}`)
	require.Contains(t, f.ok("audit", "run", "story", "--param", "task=1"), "enqueued")
	out = f.ok("audit", "run", "interventions", "--csv", "-p", "object=max_pending")
	require.Contains(t, out, "at,db_user,application_name,action,object_type,object,before,after\n")
	require.Contains(t, out, `,update,setting,max_pending,"{""value"": 1000}","{""value"": 7}"`)
	require.Equal(t, "at,worker_id,slots_before,slots_after,reason,signals,observed\n", f.ok("audit", "run", "scaling", "--csv"), "names without rows")
	require.Contains(t, f.ok("audit", "run", "enqueuers", "--json"), `"kind":"mail","tasks":1`)

	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"nothing"}, `there is no audit called "nothing": there are dead-workers, enqueuers`},
		{[]string{"story"}, "task of story: it must be given"},
		{[]string{"runs", "-p", "limit=0"}, `"0" is not a whole number from 1 to 10000`},
		{[]string{"runs", "-p", "limits=1"}, `runs has none called "limits": it has since, until`},
		{[]string{"runs", "-p", "limit"}, "write it as KEY=VALUE"},
		{[]string{"runs", "-p", "limit=1", "-p", "limit=2"}, "given twice"},
		{[]string{"runs", "-p", "since=soon"}, `"soon"`},
		{[]string{"runs", "--json", "--csv"}, "--json"},
	} {
		got := f.sched(append([]string{"audit", "run"}, tt.args...)...)
		require.Equal(t, exitUsage, got.code, tt.args)
		require.Contains(t, got.stderr, tt.want)
	}
}
