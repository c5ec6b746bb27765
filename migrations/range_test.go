package migrations

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckRange(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]error{1: ErrSchemaTooOld, 2: nil, 3: nil, 4: ErrSchemaTooNew} {
		err := checkRange(version, 2, 3)
		if want == nil {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, want)
	}
	require.LessOrEqual(t, ContractMin, ContractMax)
}

func TestRoleNames(t *testing.T) {
	t.Parallel()
	require.NoError(t, RoleNames{}.withDefaults().validate())
	require.ErrorContains(t, RoleNames{Owner: "same", Auditor: "same"}.withDefaults().validate(), "twice")
	long := RoleNames{Sidecar: "a_name_that_is_longer_than_the_sixty_three_bytes_that_postgres_has_room_for"}
	require.ErrorContains(t, long.withDefaults().validate(), "63")
}
