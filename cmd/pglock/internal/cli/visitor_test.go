package cli_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// visitor asks for pages of pglock serve as a browser does.
type visitor struct {
	t             testing.TB
	client        *http.Client
	address       string
	token, secret string
}

// visit returns a visitor of the pages whose address the process has printed, who has not logged in yet.
func (p *process) visit() *visitor {
	p.t.Helper()
	p.waitForOutput("token=")
	found := printedURL.FindStringSubmatch(p.stderr.String())
	jar, err := cookiejar.New(nil)
	must.Succeed(p.t, err)
	return &visitor{t: p.t, client: &http.Client{Jar: jar}, address: found[1], token: found[2]}
}

func (v *visitor) get(path string) (status int, text string) {
	v.t.Helper()
	request, err := http.NewRequest(http.MethodGet, v.address+path, nil)
	must.Succeed(v.t, err)
	request.Header.Set("Pglock-Secret", v.secret)
	r, err := v.client.Do(request)
	must.Succeed(v.t, err)
	if _, brought, ok := strings.Cut(r.Request.URL.Fragment, "secret="); ok {
		v.secret = brought
	}
	body, err := io.ReadAll(r.Body)
	must.Succeed(v.t, err)
	must.Succeed(v.t, r.Body.Close())
	return r.StatusCode, string(body)
}

// login fails the test unless the token opens a page.
func (v *visitor) login(path string) {
	v.t.Helper()
	if status, text := v.get(path + "?token=" + v.token); status != http.StatusOK {
		v.t.Fatalf("with the token %s is %d: %s", path, status, text)
	}
}
