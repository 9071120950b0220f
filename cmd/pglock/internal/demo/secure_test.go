package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestDownloadsAreEncryptedAndHaveAChecksum(t *testing.T) {
	sum := sha256.Sum256([]byte("programs"))
	checksum := hex.EncodeToString(sum[:])
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "programs")
	}))
	defer plain.Close()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good.jar":
			_, _ = io.WriteString(w, "programs")
		case "/good.jar.sha256":
			_, _ = io.WriteString(w, checksum+"\n")
		case "/moved.jar.sha256":
			http.Redirect(w, r, "/good.jar.sha256", http.StatusFound)
		case "/away.jar":
			http.Redirect(w, r, plain.URL, http.StatusFound)
		case "/empty.jar.sha256":
		case "/page.jar.sha256":
			_, _ = io.WriteString(w, "<html>log in first</html>")
		case "/short.jar.sha256":
			w.Header().Set("Content-Length", "64")
			_, _ = io.WriteString(w, checksum[:10])
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	client := server.Client()
	client.Transport = verified{client.Transport}
	for url, want := range map[string]string{
		server.URL + "/good.jar":         "programs",
		server.URL + "/good.jar.sha256":  checksum,
		server.URL + "/moved.jar.sha256": checksum,
		server.URL + "/empty.jar.sha256": "",
		server.URL + "/page.jar.sha256":  "",
		server.URL + "/short.jar.sha256": "",
		server.URL + "/none.jar.sha256":  "",
		server.URL + "/away.jar":         "",
		plain.URL + "/good.jar":          "",
	} {
		response, err := client.Get(url)
		if want == "" {
			if err == nil {
				_ = response.Body.Close()
				t.Errorf("%s is let in", url)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || string(body) != want {
			t.Errorf("%s has %q, %v", url, body, err)
		}
	}
}

func TestMirrorsAreEncrypted(t *testing.T) {
	for _, mirror := range []string{"http://mirror.example.com", "mirror.example.com", "https://", "file:///srv", "%"} {
		if err := secureMirror(mirror); err == nil || !strings.Contains(err.Error(), MirrorVariable) {
			t.Errorf("%s: %v", mirror, err)
		}
	}
	if err := secureMirror("https://mirror.example.com/maven"); err != nil {
		t.Error(err)
	}
}
