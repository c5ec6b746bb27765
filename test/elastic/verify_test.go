//go:build verify

package elastic_test

import (
	"testing"
	"time"
)

// Settings hold within two seconds: the sidecars read them each second.
func TestVerifySettingsHoldSoon(t *testing.T) {
	t.Parallel()
	newFleet(t).requireSettingsHold(2 * time.Second)
}
