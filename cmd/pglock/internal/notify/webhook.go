package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
)

// maxPosted is how many events a request has in full. The text tells of all.
const maxPosted = 100

// Webhook is a target: an address to which each group is posted as JSON. The field text is what Slack, Mattermost and the
// like show; events has the events as --events prints them.
type Webhook struct {
	url    string // may contain a secret, in its path too
	host   string
	client *http.Client
}

// NewWebhook returns the target of an http or https URL. Errors do not contain it.
func NewWebhook(address string) (*Webhook, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("want a URL that begins with https:// or http://")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true // minutes can pass between two groups
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &Webhook{url: address, host: u.Host, client: client}, nil
}

// String returns the host only.
func (w *Webhook) String() string { return w.host }

// message is what is posted.
type message struct {
	Text    string          `json:"text"`
	Version int             `json:"version"`
	Events  []journal.Event `json:"events"`
	Omitted int             `json:"omitted"` // further events
}

// escapeSlack takes their meaning from the three characters that have one in Slack's texts, where <!channel> and links
// begin with one. Strangers choose names.
var escapeSlack = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Deliver implements [Target].
func (w *Webhook) Deliver(ctx context.Context, g Group) (later bool, err error) {
	posted := g.Events[:min(len(g.Events), maxPosted)]
	body, err := json.Marshal(message{escapeSlack.Replace(g.Text()), journal.FormatVersion, posted, g.Omitted + len(g.Events) - len(posted)})
	if err != nil {
		return false, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return false, withoutURL(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "pglock")
	response, err := w.client.Do(request)
	if err != nil {
		return true, withoutURL(err)
	}
	_ = response.Body.Close() // what it says is not shown
	switch code := response.StatusCode; {
	case code < 300:
		return false, nil
	case code == http.StatusTooManyRequests || code >= 500:
		return true, fmt.Errorf("the answer is %d %s", code, http.StatusText(code))
	default:
		return false, fmt.Errorf("the answer is %d %s", code, http.StatusText(code))
	}
}

// withoutURL returns the cause of an error that names the URL.
func withoutURL(err error) error {
	if named, ok := errors.AsType[*url.Error](err); ok {
		return named.Err
	}
	return err
}
