package config

// LoadDSN returns the connection string of a command that needs nothing else:
// the flag's, SCHED_DATABASE_URL (or its _FILE), DATABASE_URL, or an empty one,
// which leaves everything to the PG* variables and libpq's defaults. Its error
// is an [InvalidError].
func LoadDSN(flag string, environment []string) (DSN, error) {
	const key = "database.url"
	vars := environ(environment)
	f := Field{Key: key}

	l := fallbackLayer(vars)
	if text, given := vars[f.Env()]; given {
		l.setText(f, f.Env(), text)
	}
	l.setFromFile(f, vars[f.Env()+fileSuffix], vars[f.Env()] != "")
	if flag != "" {
		l.setText(f, "--dsn", flag)
	}
	if len(l.problems) > 0 {
		return "", invalid(l.problems)
	}

	dsn, _ := l.values[key].(DSN)
	problems := checkDSN(key, dsn)
	for i := range problems {
		problems[i].Source = l.sources[key]
	}

	return dsn, invalid(problems)
}
