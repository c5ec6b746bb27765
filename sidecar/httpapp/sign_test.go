package httpapp

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// vectorSecret is the one of the specification's reference libraries.
const (
	vectorSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret  = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="
)

func withSecrets(secrets ...string) func(*Config) {
	return func(c *Config) { c.Secrets = secrets }
}

func TestSignVectors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ secret, id, timestamp, body, want string }{
		{
			vectorSecret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", `{"test": 2432232314}`,
			"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		},
		{
			"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "1649367553",
			`{"email":"test@example.com","username":"test_user"}`,
			"v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
		},
	} {
		keys, err := parseSecrets([]string{tc.secret})
		require.NoError(t, err)
		require.Equal(t, tc.want, sign(keys, tc.id, tc.timestamp, []byte(tc.body)))
	}
}

func TestRequestIsSignedWithEverySecret(t *testing.T) {
	t.Parallel()
	d, seen := recorder(t, withSecrets(vectorSecret, otherSecret))
	dispatchFor(t, d, newTask())

	r := <-seen
	id, timestamp := r.header.Get("webhook-id"), r.header.Get("webhook-timestamp")
	require.Equal(t, "42", id)
	require.Equal(t, strconv.FormatInt(noon().Unix(), 10), timestamp)
	signatures := strings.Split(r.header.Get("webhook-signature"), " ")
	require.Len(t, signatures, 2)
	for i, secret := range []string{vectorSecret, otherSecret} {
		keys, err := parseSecrets([]string{secret})
		require.NoError(t, err)
		require.Equal(t, sign(keys, id, timestamp, []byte(r.body)), signatures[i])
	}
}

func TestParseSecretsRefuses(t *testing.T) {
	t.Parallel()
	short := base64.StdEncoding.EncodeToString(make([]byte, 23))
	long := base64.StdEncoding.EncodeToString(make([]byte, 65))
	for secret, says := range map[string]string{
		"hunter2-hunter2-hunter2":   "secret 2 does not start with whsec_",
		"whsec_hunter2 hunter2 !!!": "secret 2 is not base64",
		"whsec_" + short:            "secret 2 has 23 bytes",
		"whsec_" + long:             "secret 2 has 65 bytes",
		"":                          "secret 2 does not start with whsec_",
	} {
		_, err := New(Config{URL: "http://localhost", Secrets: []string{vectorSecret, secret}})
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "hunter2", "an error never shows a secret")
		require.ErrorContains(t, err, "openssl rand", "it says how to make a good one")
	}
}
