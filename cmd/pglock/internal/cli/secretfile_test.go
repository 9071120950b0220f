package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// The server asks for the password, which a session without it does not get past.
func TestSecretsAPasswordIsReadFromASafeFileOnly(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	config := db.Config(t).ConnConfig
	if config.Password == "" {
		t.Fatal("the server wants no password, so it doesn't matter which files are read")
	}
	home := t.TempDir()
	path := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(home, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
		must.Succeed(t, os.Chmod(path, mode))
		return path
	}
	passwords := fmt.Sprintf("*:*:*:*:%s\n", config.Password)
	server := fmt.Sprintf("host=%s port=%d user=%s dbname=%s", config.Host, config.Port, config.User, db.Name())
	url := fmt.Sprintf("postgres://%s@%s:%d/%s", config.User, config.Host, config.Port, db.Name())
	service := strings.ReplaceAll(server, " ", "\n")
	path(".pgpass", passwords, 0o644)
	safe, open := path("safe", passwords, 0o600), path("my open'file", passwords, 0o640)
	services := path("services", "[bare]\n"+service+"\n[passfile]\n"+service+"\npassfile="+open+"\n"+
		"[password]\n"+service+"\npassword="+config.Password+"\n", 0o644)
	quoted := strings.ReplaceAll(open, "'", `\'`)
	escaped := strings.NewReplacer("'", `\'`, " ", `\ `).Replace(open)
	warning := "the password file %s can be read or changed by other users: its mode is "
	for _, test := range []struct {
		dsn, env string
		code     int
		says     string
	}{
		{server, "", 69, fmt.Sprintf(warning+"0644", filepath.Join(home, ".pgpass"))},
		{url, "", 69, fmt.Sprintf(warning+"0644", filepath.Join(home, ".pgpass"))},
		{server, "PGPASSFILE=" + open, 69, fmt.Sprintf(warning+"0640", open)},
		{server, "PGPASSFILE=" + safe, 0, ""},
		{server, "PGPASSWORD=" + config.Password, 0, ""},
		{server + " passfile=" + safe, "", 0, ""},
		{server + " passfile=" + safe + " passfile='" + quoted + "'", "", 69, fmt.Sprintf(warning+"0640", open)},
		{server + " options='-c lock_timeout=0 ' passfile = " + escaped, "PGPASSFILE=" + safe, 69, fmt.Sprintf(warning+"0640", open)},
		{url + "?sslmode=disable&passfile=" + strings.ReplaceAll(open, " ", "%20"), "", 69, fmt.Sprintf(warning+"0640", open)},
		{url + "?passfile=" + safe, "", 0, ""},
		{server + " password=''", "", 69, "0644"},
		{server + " password='" + config.Password + "'", "", 0, ""},
		{"service=bare", "PGPASSFILE=" + safe, 0, ""},
		{"service=bare", "", 69, "0644"},
		{"service=passfile", "PGPASSFILE=" + safe, 69, fmt.Sprintf(warning+"0640", open)},
		{"service=password", "", 64, "the service file " + services + " can be read or changed by other users"},
	} {
		r := command(t, []string{"HOME=" + home, "PGSERVICEFILE=" + services, test.env}, "monitor", "--once", "-d", test.dsn).run()
		wantCode(t, r, test.code)
		wantText(t, r.stderr, test.says)
		if test.code == 0 && r.stderr != "" || strings.Contains(r.stderr, config.Password) {
			t.Errorf("%s (%s) says %q", test.dsn, test.env, r.stderr)
		}
	}
}

func TestSecretsAPrivateKeyIsReadFromASafeFileOnly(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must.Succeed(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.Succeed(t, err)
	home := t.TempDir()
	for _, test := range []struct {
		mode os.FileMode
		code int
		says string
	}{{0o600, 69, "127.0.0.1:1"}, {0o644, 64, "the private key " + home}} {
		for name, block := range map[string]*pem.Block{"postgresql.key": {Type: "PRIVATE KEY", Bytes: private},
			"postgresql.crt": {Type: "CERTIFICATE", Bytes: certificate}} {
			path := filepath.Join(home, ".postgresql", name)
			must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.Succeed(t, os.WriteFile(path, pem.EncodeToMemory(block), test.mode))
			must.Succeed(t, os.Chmod(path, test.mode))
		}
		path := filepath.Join(home, ".postgresql", "postgresql.")
		for _, more := range []string{"", "?sslkey=" + path + "key&sslcert=" + path + "crt"} {
			r := command(t, []string{"HOME=" + home}, "monitor", "--once", "-d", "postgres://u@127.0.0.1:1/x"+more).run()
			wantCode(t, r, test.code)
			wantText(t, r.stderr, test.says)
		}
		if test.code == 64 {
			r := command(t, nil, "monitor", "--http", "127.0.0.1:0", "--http-cert", path+"crt", "--http-key", path+"key", "-d", "postgres://u@127.0.0.1:1/x").run()
			wantCode(t, r, test.code)
			wantText(t, r.stderr, "--http-key: "+home)
		}
	}
}
