package see_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// scaler is what is looked at of an object that scales the example for Kubernetes.
type scaler struct {
	Kind string
	Spec struct {
		ScaleTargetRef struct{ Name string } `yaml:"scaleTargetRef"`
		Metrics        []struct {
			Type     string
			External struct{ Metric struct{ Name string } }
		}
		Triggers []struct {
			Type     string
			Metadata map[string]string
		}
	}
}

// scalers are the objects of a file by their kinds.
func scalers(t *testing.T, name string) map[string]scaler {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kubernetes, name))
	require.NoError(t, err)
	found := map[string]scaler{}
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var object scaler
		err := documents.Decode(&object)
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err, name)
		found[object.Kind] = object
	}
}

// KEDA asks what a migrated database answers with one number.
func TestScaledObjectAsksTheDatabase(t *testing.T) {
	t.Parallel()
	objects := scalers(t, "keda-scaledobject.yaml")
	require.ElementsMatch(t, []string{"Secret", "TriggerAuthentication", "ScaledObject"}, keys(objects))
	spec := objects["ScaledObject"].Spec
	require.Equal(t, "shop-worker", spec.ScaleTargetRef.Name)
	require.Len(t, spec.Triggers, 1)
	require.Equal(t, "postgresql", spec.Triggers[0].Type)

	pool := pgtest.New(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, err = tx.Exec(t.Context(), "SET LOCAL ROLE sched_auditor")
	require.NoError(t, err)
	var desired float64
	require.NoError(t, tx.QueryRow(t.Context(), spec.Triggers[0].Metadata["query"]).Scan(&desired))
	require.Zero(t, desired, "no work and no worker")
}

// The HPA follows a metric that there is, and that is absent where nobody leads.
func TestAutoscalerFollowsAMetric(t *testing.T) {
	t.Parallel()
	objects := scalers(t, "hpa.yaml")
	require.Equal(t, []string{"HorizontalPodAutoscaler"}, keys(objects))
	spec := objects["HorizontalPodAutoscaler"].Spec
	require.Equal(t, "shop-worker", spec.ScaleTargetRef.Name)
	require.Len(t, spec.Metrics, 1)
	require.Equal(t, "External", spec.Metrics[0].Type)
	reference, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	require.Regexp(t, "(?m)^\\| `"+spec.Metrics[0].External.Metric.Name+"` \\| gauge \\|.* absent at the others", string(reference))
}
