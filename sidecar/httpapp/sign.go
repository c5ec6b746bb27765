package httpapp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// Standard Webhooks, https://www.standardwebhooks.com: a symmetric secret has
// 24 to 64 bytes and is written as whsec_ and its base64.
const (
	secretPrefix   = "whsec_"
	minSecretBytes = 24
	maxSecretBytes = 64
)

// parseSecrets reads the secrets. Its errors name a secret by its place and
// never show it.
func parseSecrets(secrets []string) ([][]byte, error) {
	keys := make([][]byte, 0, len(secrets))
	for i, secret := range secrets {
		encoded, ok := strings.CutPrefix(strings.TrimSpace(secret), secretPrefix)
		if !ok {
			return nil, fmt.Errorf("secret %d does not start with %s; make one with: echo %s$(openssl rand -base64 32)", i+1, secretPrefix, secretPrefix)
		}
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("secret %d is not base64 after %s; make one with: echo %s$(openssl rand -base64 32)", i+1, secretPrefix, secretPrefix)
		}
		if len(key) < minSecretBytes || len(key) > maxSecretBytes {
			return nil, fmt.Errorf("secret %d has %d bytes, Standard Webhooks asks for %d to %d; make one with: echo %s$(openssl rand -base64 32)", i+1, len(key), minSecretBytes, maxSecretBytes, secretPrefix)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// sign returns the webhook-signature header: one v1 signature for each key,
// over id.timestamp.body.
func sign(keys [][]byte, id, timestamp string, body []byte) string {
	var signatures []byte
	var sum [sha256.Size]byte
	for i, key := range keys {
		if i > 0 {
			signatures = append(signatures, ' ')
		}
		mac := hmac.New(sha256.New, key)
		// A hash never fails to write.
		_, _ = mac.Write([]byte(id + "." + timestamp + "."))
		_, _ = mac.Write(body)
		signatures = append(signatures, "v1,"...)
		signatures = base64.StdEncoding.AppendEncode(signatures, mac.Sum(sum[:0]))
	}
	return string(signatures)
}
