package see_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// dashboard is what is looked at of one.
type dashboard struct {
	UID    string `json:"uid"`
	Title  string `json:"title"`
	Panels []panel
	Links  []struct {
		URL string `json:"url"`
	} `json:"links"`
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

type panel struct {
	ID      int `json:"id"`
	Type    string
	Title   string
	GridPos struct{ H, W, X, Y int } `json:"gridPos"`
	Targets []target
}

type target struct {
	RefID      string `json:"refId"`
	Expr       string
	Datasource struct{ Type, UID string }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

func TestDashboardUsesMetricsThatExist(t *testing.T) {
	t.Parallel()
	names := known(t)
	shown := map[string]bool{}
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			require.Equal(t, "prometheus", target.Datasource.Type, panel.Title)
			for _, name := range usedBy(target.Expr) {
				require.True(t, names[name], "panel %q uses %s, which no sidecar has", panel.Title, name)
				shown[name] = true
			}
		}
	}
	for _, name := range []string{
		"sched_qps_prediction_error_ratio", "sched_worker_pool_workers_active", "sched_elastic_score", "sched_elastic_forecast_per_second",
		"sched_fleet_pressure", "sched_queue_oldest_available_seconds", "sched_notifications_total",
	} {
		require.True(t, shown[name], "%s is on no panel", name)
	}
}

func TestDashboardIsWhole(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	require.Equal(t, "sched-prometheus", d.UID)
	var urls, variables []string
	for _, link := range d.Links {
		urls = append(urls, link.URL)
	}
	require.Contains(t, urls, "/d/sched-postgres")
	require.Contains(t, urls, "${console}")
	for _, variable := range d.Templating.List {
		variables = append(variables, variable.Name)
		for _, name := range usedBy(variable.Definition) {
			require.True(t, known(t)[name], "variable %s uses %s", variable.Name, name)
		}
	}
	require.Subset(t, variables, []string{"datasource", "job", "instance", "queue", "kind"})
	const width = 24
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "panel %q has the id of another", p.Title)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, width, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, taken[at], "panel %q lies on another", p.Title)
				taken[at] = p.Title
			}
		}
	}
}

// The dashboard promises no traces behind its dots while the data source says nothing of where they are.
func TestDotsLeadWhereTheDataSourceSays(t *testing.T) {
	t.Parallel()
	dashboard, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	source, err := os.ReadFile(filepath.Join(provisioning, "datasources/sched.yml"))
	require.NoError(t, err)
	var file struct {
		Datasources []struct {
			JSONData map[string]any `yaml:"jsonData"`
		}
	}
	require.NoError(t, yaml.Unmarshal(source, &file))
	require.NotContains(t, file.Datasources[0].JSONData, "exemplarTraceIdDestinations")
	require.NotContains(t, string(dashboard), "lead to traces")
}

// What is provisioned, and what the compose file mounts, is there.
func TestDeploymentIsWhole(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"datasources/sched.yml", "dashboards/sched.yml"} {
		text, err := os.ReadFile(filepath.Join(provisioning, name))
		require.NoError(t, err)
		var file map[string]any
		require.NoError(t, yaml.Unmarshal(text, &file), name)
		require.Equal(t, 1, file["apiVersion"], name)
	}
	text, err := os.ReadFile(composeFile)
	require.NoError(t, err)
	var compose struct {
		Services map[string]struct {
			Volumes     []string
			NetworkMode string   `yaml:"network_mode"`
			Ports       []string `yaml:"ports"`
			Environment map[string]string
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &compose))
	require.Subset(t, keys(compose.Services), []string{"postgres", "prometheus", "grafana"})
	for name, service := range compose.Services {
		for _, volume := range service.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if strings.HasPrefix(from, ".") {
				require.FileExists(t, existing(t, filepath.Join(filepath.Dir(composeFile), from)), name)
			}
		}
		for _, port := range service.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s: %s is open to other machines", name, port)
		}
		if service.Environment["SCHED_ADMIN_EXPOSE"] == "true" {
			require.GreaterOrEqual(t, len(service.Environment["SCHED_CONSOLE_TOKEN"]), 16, "%s: its console would be off", name)
		}
		if beside, shares := strings.CutPrefix(service.NetworkMode, "service:"); shares {
			require.Contains(t, compose.Services, beside, name)
		}
	}
}

// The sidecar of the example for Kubernetes knows all that it is told.
func TestKubernetesExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(kubernetes, "deployment.yaml"))
	require.NoError(t, err)
	reference, err := os.ReadFile("../../docs/config.md")
	require.NoError(t, err)
	kinds := map[string]bool{}
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var object struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct {
						InitContainers []struct{ Env []struct{ Name string } } `yaml:"initContainers"`
					}
				}
			}
		}
		err := documents.Decode(&object)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		kinds[object.Kind] = true
		for _, container := range object.Spec.Template.Spec.InitContainers {
			require.NotEmpty(t, container.Env)
			for _, variable := range container.Env {
				require.Contains(t, string(reference), "`"+variable.Name+"`")
			}
		}
	}
	require.Equal(t, map[string]bool{"Secret": true, "Deployment": true, "PodMonitor": true}, kinds)
}

// existing returns a file for a path that is one, or any file of a directory.
func existing(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	if !info.IsDir() {
		return path
	}
	var found string
	require.NoError(t, filepath.WalkDir(path, func(at string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = at
		}
		return err
	}))
	return found
}

func keys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	return names
}
