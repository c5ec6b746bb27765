//go:build verify

package postgres_test

import "testing"

// Who may do what with roles changed with version 16.
func TestVerifyManagedPostgresVersions(t *testing.T) {
	t.Parallel()
	for _, major := range []string{"18", "16", "14"} {
		t.Run(major, func(t *testing.T) {
			t.Parallel()
			t.Run("database owner", func(t *testing.T) {
				t.Parallel()
				requirePlainOwnerWorks(t, npmPostgres(t, major))
			})
			t.Run("administrator's roles", func(t *testing.T) {
				t.Parallel()
				requireAdminsRolesWork(t, npmPostgres(t, major))
			})
			t.Run("role creator", func(t *testing.T) {
				t.Parallel()
				requireRoleCreatorWorks(t, npmPostgres(t, major))
			})
		})
	}
}
