package config

import (
	"regexp"
	"slices"
	"strings"
)

// Names of variables that are no field's.
const (
	envPrefix   = "SCHED_"
	envConfig   = "SCHED_CONFIG"
	envFallback = "DATABASE_URL"
	envTest     = "SCHED_TEST_"   // settings of this project's own tests
	envPgBin    = "SCHED_PG_BIN"  // where internal/devpg looks for a server
	envDevDir   = "SCHED_DEV_DIR" // where `sched dev` keeps its data
	fileSuffix  = "_FILE"
)

// kubernetesLink matches what Kubernetes sets in every pod beside a service
// called sched or sched-something. No key ends like that.
const kubernetesLink = `^SCHED_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`

// environ returns the variables of "NAME=value" entries. An empty one counts as
// not set: that's how Compose and Kubernetes hand on what nobody set.
func environ(entries []string) map[string]string {
	vars := map[string]string{}
	for _, e := range entries {
		if name, value, ok := strings.Cut(e, "="); ok && value != "" {
			vars[name] = value
		}
	}

	return vars
}

// fallbackLayer is the lowest: the variable that platforms set for any program.
func fallbackLayer(vars map[string]string) *layer {
	l := newLayer()
	if url, ok := vars[envFallback]; ok {
		l.set("database.url", envFallback, DSN(url))
	}

	return l
}

// envLayer reads the SCHED_* variables and complains of those nobody reads.
func envLayer(vars map[string]string) *layer {
	l := newLayer()
	known := []string{envConfig, envPgBin, envDevDir}
	for _, f := range Fields() {
		known = append(known, f.Env())
		text, given := vars[f.Env()]
		if given {
			l.setText(f, f.Env(), text)
		}
		if f.IsSecret() {
			known = append(known, f.Env()+fileSuffix)
			l.setFromFile(f, vars[f.Env()+fileSuffix], given)
		}
	}

	link := regexp.MustCompile(kubernetesLink)
	for _, name := range sortedKeys(vars) {
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, envTest) || slices.Contains(known, name) || link.MatchString(name) {
			continue
		}
		l.complain(Problem{Source: name, What: "no such variable is read", Advice: nearestVariable(name, known)})
	}

	return l
}

func nearestVariable(name string, known []string) string {
	short := make([]string, len(known))
	for i, k := range known {
		short[i] = strings.TrimPrefix(k, envPrefix)
	}
	if n := Nearest(strings.TrimPrefix(name, envPrefix), short); n != "" {
		return "did you mean " + envPrefix + n + "?"
	}

	return "unset it; docs/config.md lists them"
}

// setFromFile sets a secret from the file that its _FILE variable names.
func (l *layer) setFromFile(f Field, path string, givenDirectly bool) {
	if path == "" {
		return
	}
	source := f.Env() + fileSuffix
	if givenDirectly {
		l.complain(Problem{Key: f.Key, Source: source, What: f.Env() + " is set too", Advice: "unset one of them"})

		return
	}
	text, err := readBounded(path)
	if err != nil {
		l.complain(Problem{Key: f.Key, Source: source, What: "can't read the file: " + err.Error()})

		return
	}
	l.setText(f, source, string(text))
}
