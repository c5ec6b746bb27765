package doctor

import (
	"context"

	"github.com/sched-sidecar/sched/internal/pooler"
)

// between is what stands between this program and Postgres.
type between struct {
	pooled bool // something greets in Postgres' place
	shared bool // it hands each transaction to whichever server process is free
	listen bool // notifications are listened for elsewhere, where nothing stands between
}

func lookAtPooler(ctx context.Context, p *patient) ([]Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	first, err := connect(ctx, p.DSN, p.Timeout)
	if err != nil {
		return nil, err
	}
	defer closeConn(ctx, first)
	var found between
	if found.pooled, err = pooler.Between(ctx, first); err != nil {
		return nil, err
	}
	if found.pooled {
		second, err := connect(ctx, p.DSN, p.Timeout)
		if err != nil {
			return nil, err
		}
		defer closeConn(ctx, second)
		if found.shared, err = pooler.Shared(ctx, first, second); err != nil {
			return nil, err
		}
	}
	if p.ListenDSN != p.DSN {
		listener, err := connect(ctx, p.ListenDSN, p.Timeout)
		if err != nil {
			return []Finding{{
				Level: Failed, Message: "where notifications are listened for can't be reached: " + err.Error(),
				Advice: "check --listen-dsn, and database.listen_url of the sidecars",
			}}, nil
		}
		defer closeConn(ctx, listener)
		pooled, err := pooler.Between(ctx, listener)
		if err != nil {
			return nil, err
		}
		found.listen = !pooled
	}
	return []Finding{judgePooler(found)}, nil
}

func judgePooler(found between) Finding {
	const sessions = "sidecars see it by themselves and leave nothing behind in sessions"
	switch {
	case !found.pooled:
		return ok("nothing stands between this program and Postgres")
	case !found.shared:
		return ok("a pooler answers, in session mode as it seems; %s", sessions)
	case found.listen:
		return ok("a pooler in transaction mode answers; %s; notifications are listened for at Postgres itself", sessions)
	default:
		return Finding{
			Level: Warning, Message: "a pooler in transaction mode answers, through which nothing can be listened for: sidecars poll, tasks start up to poll_interval late",
			Advice: "set database.listen_url (SCHED_DATABASE_LISTEN_URL) of the sidecars to Postgres itself, and --listen-dsn here; migrate past the pooler, too",
		}
	}
}
