// Package chromium drives a headless Chromium over its DevTools protocol, for tests and measurements of the page of
// pglock monitor (https://chromedevtools.github.io/devtools-protocol/).
package chromium

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// Variable names the Chromium to use; without it those on PATH are tried.
const Variable = "PGLOCK_TEST_BROWSER"

// Find returns the path of a Chromium.
func Find() (string, error) {
	if path := os.Getenv(Variable); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Chromium is on PATH: install one (apt-get install chromium), or name it in %s", Variable)
}

// Browser is a running Chromium. Its methods may be called concurrently.
type Browser struct {
	cmd     *exec.Cmd
	profile string
	in      io.WriteCloser

	mu      sync.Mutex
	last    int
	waiting map[int]chan reply
	ended   error // why there are no more answers
}

type request struct {
	ID      int    `json:"id"`
	Session string `json:"sessionId,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

type reply struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Start starts a browser with its own profile; Close ends it. It communicates through two pipes, so it listens on no
// port.
func Start() (_ *Browser, err error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "pglock-chromium")
	if err != nil {
		return nil, err
	}
	commands, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, answers, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, commands.Close(), in.Close())
	}
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe",
		"--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{commands, answers} // 3 and 4, as the flag requires
	b := &Browser{cmd: cmd, profile: profile, in: in, waiting: map[int]chan reply{}}
	if err := errors.Join(cmd.Start(), commands.Close(), answers.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", path, err), in.Close(), out.Close(), os.RemoveAll(profile))
	}
	go b.read(out)
	return b, nil
}

// PID is the process ID of the browser, whose children do the work.
func (b *Browser) PID() int { return b.cmd.Process.Pid }

// Close ends the browser and removes its profile.
func (b *Browser) Close() error {
	_ = b.call(context.Background(), "", "Browser.close", nil, nil) // it may have ended
	err := b.in.Close()
	_ = b.cmd.Wait() // the exit status does not matter
	return errors.Join(err, os.RemoveAll(b.profile))
}

// read distributes the answers. Messages end with a zero byte.
func (b *Browser) read(out io.ReadCloser) {
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			b.end(errors.Join(fmt.Errorf("the browser ended: %w", err), out.Close()))
			return
		}
		var answer reply
		if json.Unmarshal(text[:len(text)-1], &answer) != nil || answer.ID == 0 {
			continue // an event
		}
		b.mu.Lock()
		if waiter := b.waiting[answer.ID]; waiter != nil {
			delete(b.waiting, answer.ID)
			waiter <- answer
		}
		b.mu.Unlock()
	}
}

func (b *Browser) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = err
	for _, waiter := range b.waiting {
		close(waiter)
	}
	b.waiting = nil
}

// send sends a command, and returns the channel for its answer.
func (b *Browser) send(session, method string, params any) (int, chan reply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil {
		return 0, nil, b.ended
	}
	b.last++
	text, err := json.Marshal(request{b.last, session, method, params})
	if err != nil {
		return 0, nil, err
	}
	answer := make(chan reply, 1)
	b.waiting[b.last] = answer
	_, err = b.in.Write(append(text, 0))
	return b.last, answer, err
}

func (b *Browser) call(ctx context.Context, session, method string, params, result any) error {
	id, answers, err := b.send(session, method, params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case answer, ok := <-answers:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser ended", method)
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", method, answer.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(answer.Result, result)
	case <-ctx.Done():
		b.mu.Lock()
		delete(b.waiting, id)
		b.mu.Unlock()
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// Page is a tab.
type Page struct {
	browser *Browser
	session string
}

// NewPage opens an empty tab.
func (b *Browser) NewPage(ctx context.Context) (*Page, error) {
	var target struct {
		ID string `json:"targetId"`
	}
	if err := b.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return nil, err
	}
	var attached struct {
		Session string `json:"sessionId"`
	}
	err := b.call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached)
	return &Page{b, attached.Session}, err
}

// Browser is the browser of the tab.
func (p *Page) Browser() *Browser { return p.browser }

// Call sends a command of the DevTools protocol, and decodes its result unless that is nil.
func (p *Page) Call(ctx context.Context, method string, params, result any) error {
	return p.browser.call(ctx, p.session, method, params, result)
}

// Navigate begins to load a URL.
func (p *Page) Navigate(ctx context.Context, url string) error {
	var loading struct {
		Error string `json:"errorText"`
	}
	err := p.Call(ctx, "Page.navigate", map[string]any{"url": url}, &loading)
	if err == nil && loading.Error != "" {
		err = fmt.Errorf("load a page: %s", loading.Error)
	}
	return err
}

// Eval evaluates JavaScript, and decodes the result, or the result of the promise.
func (p *Page) Eval(ctx context.Context, script string, value any) error {
	var evaluated struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err := p.Call(ctx, "Runtime.evaluate",
		map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &evaluated)
	switch {
	case err != nil:
		return err
	case evaluated.Exception != nil:
		return fmt.Errorf("evaluate: %s", cmp.Or(evaluated.Exception.Exception.Description, evaluated.Exception.Text))
	case value == nil:
		return nil
	}
	return json.Unmarshal(evaluated.Result.Value, value)
}

// Press presses a key, such as "Tab" or "ArrowDown", with its Windows key code.
func (p *Page) Press(ctx context.Context, key string, code int) error {
	for _, kind := range []string{"keyDown", "keyUp"} {
		params := map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
		if key == "Enter" && kind == "keyDown" {
			params["text"] = "\r"
		}
		if err := p.Call(ctx, "Input.dispatchKeyEvent", params, nil); err != nil {
			return err
		}
	}
	return nil
}

// Picture takes a screenshot, as PNG.
func (p *Page) Picture(ctx context.Context) ([]byte, error) {
	var taken struct {
		Data []byte `json:"data"`
	}
	err := p.Call(ctx, "Page.captureScreenshot", map[string]any{"format": "png"}, &taken)
	return taken.Data, err
}

// Size sets the size of the window in pixels; phone makes it the screen of a phone.
func (p *Page) Size(ctx context.Context, width, height int, phone bool) error {
	return p.Call(ctx, "Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}, nil)
}

// Scheme sets the colour scheme, dark or light.
func (p *Page) Scheme(ctx context.Context, scheme string) error {
	return p.Call(ctx, "Emulation.setEmulatedMedia",
		map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}
