package fleetfile

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestExport(t *testing.T) {
	t.Parallel()
	fleet := parsed(t, whole)
	fleet[Kinds][0].Pinned, fleet[Kinds][0].By = true, "ann"
	fleet[Settings][0].Pinned, fleet[Settings][0].By = true, "ann"
	text, err := Export(fleet)
	require.NoError(t, err)
	require.Equal(t, `settings:
  notify: false # pinned by ann
  max_args_bytes: 65536
queues:
  - name: mail
    description: Mails to customers
  - name: render
    selector: {gpu: a100, zone: "1"}
    protocol: grpc
  - name: mail
    protocol: http
kinds:
  send_mail:
    # pinned by ann
    description: |-
      two
      lines
    queue: mail
    priority: 2
    timeout: 1m30s
    max_attempts: 10
    retry_base: 500ms
    retry_factor: 1.5
    retry_cap: 1h
    retry_jitter: 0
  ns/Render:v1+x:
    selector: {gpu: a100}
    protocol: any
  other:
    selector: {gpu: a100}
  bare: {}
`, string(text))
}

// Whatever is valid comes back from a file as it was written.
func TestExportAndParse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fleet := distinct(fleets().Draw(t, "fleet"))
		text, err := Export(fleet)
		require.NoError(t, err)
		again, err := Parse("f", text)
		require.NoError(t, err, "%s", text)
		for _, entries := range again {
			for i := range entries {
				entries[i].line = 0
			}
		}
		require.Equal(t, fleet, again, "%s", text)
	})
}

// distinct drops queues that are there already.
func distinct(fleet Fleet) Fleet {
	seen := map[string]bool{}
	kept := []Entry{}
	for _, e := range fleet[Queues] {
		if !seen[e.id()] {
			kept = append(kept, e)
		}
		seen[e.id()] = true
	}
	fleet[Queues] = kept
	return fleet
}
