package demo

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// secureMirror refuses a mirror without encryption, since the programs could be replaced on the way.
func secureMirror(mirror string) error {
	if u, err := url.Parse(mirror); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s: want a URL that begins with https://, since the download is executed", MirrorVariable)
	}
	return nil
}

// verified is the transport of the download. The library accepts a missing checksum and follows any redirect; verified
// makes both errors.
type verified struct{ http.RoundTripper }

func (v verified) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s is not https, and the download is executed", request.URL.Redacted())
	}
	response, err := v.RoundTripper.RoundTrip(request)
	if err != nil || !strings.HasSuffix(request.URL.Path, ".sha256") || isRedirect(response) {
		return response, err
	}
	sum, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	_ = response.Body.Close() // everything needed has been read
	sum = bytes.TrimSpace(sum)
	if _, malformed := hex.DecodeString(string(sum)); err != nil || malformed != nil || len(sum) != 64 ||
		response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("there is no checksum at %s (%s), and nothing is executed without one", request.URL.Redacted(),
			response.Status)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(sum)), int64(len(sum))
	return response, nil
}

func isRedirect(response *http.Response) bool {
	return response.StatusCode >= 300 && response.StatusCode < 400 && response.Header.Get("Location") != ""
}
