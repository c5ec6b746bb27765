package postgres_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"
)

// Managed Postgres is reached over TLS, verified against the provider's root.
func TestTLS(t *testing.T) {
	t.Parallel()
	certificate, key := selfSigned(t)
	server, err := devpg.Start(t.Context(), devpg.Options{Fast: true, Settings: map[string]string{
		"ssl": "on", "ssl_cert_file": certificate, "ssl_key_file": key,
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	dsn := func(host, parameters string) string {
		u, err := url.Parse(server.DSN())
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(u.Host)
		require.NoError(t, err)
		u.Host, u.RawQuery = net.JoinHostPort(host, port), parameters
		return u.String()
	}

	verified := dsn("127.0.0.1", "sslmode=verify-full&channel_binding=require&sslrootcert="+url.QueryEscape(certificate))
	migrateUp(t, verified)
	a := newApp(t, nil)
	side := startSidecar(t, verified, a.url, nil)
	db := open(t, verified)
	side.awaitMetric(t, "sched_listening", 1, soon)
	awaitStatus(t, db, enqueue(t, db, "k"), "completed", soon)
	require.Zero(t, one[int](t, db, `SELECT count(*) FROM pg_stat_activity AS a JOIN pg_stat_ssl AS s USING (pid)
		WHERE a.application_name = 'sched-sidecar' AND NOT s.ssl`), "a connection without TLS")

	// Another name than the certificate's.
	p := start(t, sidecarBinary, settings{setDatabase: dsn("localhost", "sslmode=verify-full&sslrootcert="+url.QueryEscape(certificate))}, "run")
	require.Equal(t, 1, p.awaitExit(t, soon))
	require.Contains(t, p.log.String(), "certificate")
}

// selfSigned makes a certificate for 127.0.0.1 that a server of the test's may use.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		SignatureAlgorithm: x509.ECDSAWithSHA256,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	dir := serverDir(t)
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
		give(t, path)
		return path
	}
	return write("server.crt", "CERTIFICATE", der), write("server.key", "PRIVATE KEY", encoded)
}
