package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// evilSQL fills a schema with look-alikes of what our functions and views use.
// Each of them raises an error.
const evilSQL = `
CREATE SCHEMA evil;
CREATE FUNCTION evil.hijack() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hijacked'; END $$;
CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT evil.hijack()::timestamptz $$;
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT evil.hijack()::timestamptz $$;
CREATE FUNCTION evil.md5(text) RETURNS text LANGUAGE sql AS $$ SELECT evil.hijack() $$;
CREATE FUNCTION evil.pg_notify(text, text) RETURNS void LANGUAGE sql AS $$ SELECT evil.hijack() $$;
CREATE FUNCTION evil.char_length(text) RETURNS int LANGUAGE sql AS $$ SELECT evil.hijack()::int $$;
CREATE FUNCTION evil.octet_length(text) RETURNS int LANGUAGE sql AS $$ SELECT evil.hijack()::int $$;
CREATE FUNCTION evil.jsonb_typeof(jsonb) RETURNS text LANGUAGE sql AS $$ SELECT evil.hijack() $$;
CREATE FUNCTION evil.jsonb_build_object(VARIADIC "any") RETURNS jsonb LANGUAGE internal AS 'jsonb_build_array';
CREATE FUNCTION evil.jsonb_object(text[]) RETURNS jsonb LANGUAGE sql AS $$ SELECT evil.hijack()::jsonb $$;
CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE sql AS $$ SELECT evil.hijack() $$;
CREATE FUNCTION evil.cardinality(anyarray) RETURNS int LANGUAGE sql AS $$ SELECT evil.hijack()::int $$;
CREATE FUNCTION evil.get_bit(bit, int) RETURNS int LANGUAGE sql AS $$ SELECT evil.hijack()::int $$;
CREATE FUNCTION evil.eq(text, text) RETURNS bool LANGUAGE sql AS $$ SELECT evil.hijack()::bool $$;
CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq);
CREATE OPERATOR evil.~ (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq);
CREATE OPERATOR evil.!~ (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq);
CREATE FUNCTION evil.eq(int, int) RETURNS bool LANGUAGE sql AS $$ SELECT evil.hijack()::bool $$;
CREATE OPERATOR evil.= (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.eq);
CREATE FUNCTION evil.le(int, int) RETURNS bool LANGUAGE sql AS $$ SELECT evil.hijack()::bool $$;
CREATE OPERATOR evil.<= (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.le);
CREATE FUNCTION evil.arrow(jsonb, text) RETURNS jsonb LANGUAGE sql AS $$ SELECT evil.hijack()::jsonb $$;
CREATE OPERATOR evil.-> (LEFTARG = jsonb, RIGHTARG = text, FUNCTION = evil.arrow);
CREATE FUNCTION evil.arrow2(jsonb, text) RETURNS text LANGUAGE sql AS $$ SELECT evil.hijack() $$;
CREATE OPERATOR evil.->> (LEFTARG = jsonb, RIGHTARG = text, FUNCTION = evil.arrow2);
CREATE FUNCTION evil.cat(text, text) RETURNS text LANGUAGE sql AS $$ SELECT evil.hijack() $$;
CREATE OPERATOR evil.|| (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.cat);
CREATE TABLE evil.river_job (id bigint);
CREATE TABLE evil.queue (name text);
CREATE TABLE evil.setting (key text, value jsonb);
CREATE DOMAIN evil.text AS pg_catalog.text CHECK (evil.hijack() IS NULL);
CREATE DOMAIN evil.jsonb AS pg_catalog.jsonb CHECK (evil.hijack() IS NULL);
CREATE DOMAIN evil.int2 AS pg_catalog.int2 CHECK (evil.hijack() IS NULL);
CREATE TABLE evil.kind (kind pg_catalog.text);
CREATE COLLATION evil."C" FROM "POSIX";
CREATE DOMAIN evil.timestamptz AS pg_catalog.timestamptz CHECK (evil.hijack() IS NULL)`

func TestHostileSearchPath(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, evilSQL)
	conn := connect(t, pool, "")
	// The first row of each: both the look-alikes and pg_temp come before ours.
	exec(t, conn, "CREATE TEMP TABLE setting (key pg_catalog.text, value pg_catalog.jsonb); CREATE TEMP TABLE worker (id pg_catalog.text)")
	exec(t, conn, "SET search_path = pg_temp, evil, pg_catalog")
	_, err := conn.Exec(t.Context(), "SELECT md5('a'::pg_catalog.text)")
	require.ErrorContains(t, err, "hijacked", "the trap is set")

	id := one[int64](t, conn, `SELECT sched.enqueue('mail', '{"a": 1}', 'q', 1, NULL, '{"gpu": "a"}', 'http', 'k', 3, '1 minute', 'b', '{"h": "v"}')`)
	require.Equal(t, id, one[int64](t, conn, `SELECT sched.enqueue('mail', unique_key => 'k')`))
	exec(t, pool, `SELECT sched.add_queue('busy', 'busy', '{}', 'any'); UPDATE sched.queue SET wake = '{}' WHERE name = 'busy'`)
	exec(t, conn, `SELECT sched.enqueue('mail', '{"a": 1}', 'busy')`)
	exec(t, conn, `SELECT sched.enqueue('mail', run_at => '2100-01-01')`)
	exec(t, conn, `SELECT sched.enqueue_many('[{"kind": "mail", "unique_key": "k"}, {"kind": "mail", "timeout": "1 minute", "selector": {"a": "b"}}]')`)
	refused(t, conn, "22023", "SELECT sched.enqueue('')")
	require.Equal(t, "cancelled", one[string](t, conn, "SELECT sched.cancel($1)", id))
	require.Equal(t, "available", one[string](t, conn, "SELECT sched.retry($1)", id))
	lease := claim(t, pool, id, "w-one")
	refused(t, conn, "SC409", completeSQL, id, "w-two.1")
	exec(t, conn, "SELECT sched.complete($1, $2, '{}')", id, lease)
	exec(t, pool, `INSERT INTO sched.kind (kind, queue, selector, priority, timeout) VALUES ('mail', 'q', '{"gpu": "a"}', 2, '1 minute')`)
	waiting := one[int64](t, conn, "SELECT sched.enqueue('mail')")
	exec(t, conn, `SELECT sched.enqueue_many('[{"kind": "mail"}]')`)
	exec(t, conn, "SELECT sched.explain($1), sched.explain($2)", id, waiting)
	exec(t, pool, "INSERT INTO sched.worker (id, client_id, state) VALUES ('w-one', 'c', 'active')")
	exec(t, conn, "SELECT sched.explain($1), sched.explain($2)", id, waiting)
	exec(t, conn, "SELECT sched.discover_queues()")
	exec(t, conn, "SELECT sched.queue_name('q', '{\"a\": \"b\"}', 'any')")
	exec(t, conn, "SELECT sched.contract_version()")
	for _, view := range []string{"task", "attempt", "batch"} {
		exec(t, conn, "SELECT * FROM sched."+view)
	}
	exec(t, conn, "UPDATE sched.setting SET value = 'true' WHERE key OPERATOR(pg_catalog.=) 'notify'")
}
