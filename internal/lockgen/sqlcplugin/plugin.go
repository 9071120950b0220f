// Package sqlcplugin lets sqlc run the generator: it reads a request of sqlc's plugin protocol, in JSON or in protobuf,
// and writes the response in the same form.
package sqlcplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/pglock-toolkit/pglock/internal/lockgen"
)

// Method is the one argument that sqlc gives to a plugin.
const Method = "/plugin.CodegenService/Generate"

// Run answers the request on in. To report the lines of mistakes, it looks for the files of the project in dir, which
// may be nil.
func Run(in io.Reader, out io.Writer, dir fs.FS) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read sqlc's request: %w", err)
	}
	if len(text) > 0 && text[0] == '{' {
		return runJSON(text, out, dir)
	}
	r, err := decode(text)
	if err != nil {
		return fmt.Errorf("read sqlc's request, as protobuf: %w", err)
	}
	files, err := generate(r, dir)
	if err != nil {
		return err
	}
	_, err = out.Write(encode(files))
	return err
}

func runJSON(text []byte, out io.Writer, dir fs.FS) error {
	var r request
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("read sqlc's request, as JSON: %w", err)
	}
	files, err := generate(r, dir)
	if err != nil {
		return err
	}
	type file struct {
		Name     string `json:"name"`
		Contents []byte `json:"contents"`
	}
	var response struct {
		Files []file `json:"files"`
	}
	for _, f := range files {
		response.Files = append(response.Files, file(f))
	}
	return json.NewEncoder(out).Encode(response)
}

func generate(r request, dir fs.FS) ([]lockgen.File, error) {
	if r.Settings.Engine != "postgresql" {
		return nil, fmt.Errorf("the engine is %q: advisory locks are PostgreSQL's", r.Settings.Engine)
	}
	options, err := lockgen.ParseOptions(r.PluginOptions)
	if err != nil {
		return nil, err
	}
	if options.Package == "" {
		options.Package = path.Base(r.Settings.Codegen.Out)
	}
	options.Generator = "sqlc-gen-pglock"
	input := lockgen.Input{Options: options}
	prefix, found := projectDir(dir, r)
	if found && prefix != "." {
		if dir, err = fs.Sub(dir, prefix); err != nil {
			return nil, err
		}
	}
	sources := newSources(dir, prefix, r.Settings.Queries)
	for _, q := range r.Queries {
		input.Queries = append(input.Queries, q.model(sources))
	}
	input.Comments = sources.leftovers()
	input.Previous = previous(dir, prefix, r.Settings.Codegen.Out)
	if err := checkPrepared(dir, r.Settings.Codegen.Plugin, input); err != nil {
		return nil, err
	}
	return lockgen.Generate(input)
}

// previous returns the file of the package that will be replaced, or a zero File. The package is not in dir if it is
// above sqlc's configuration.
func previous(dir fs.FS, prefix, out string) lockgen.File {
	name := path.Join(out, lockgen.TemplatesFile)
	if dir == nil || !fs.ValidPath(name) {
		return lockgen.File{}
	}
	text, err := fs.ReadFile(dir, name)
	if err != nil {
		return lockgen.File{}
	}
	return lockgen.File{Name: path.Join(prefix, name), Contents: text}
}

// model converts a query for the generator. Its full text is the one that sqlc's own Go generator
// writes.
func (q query) model(sources *sources) lockgen.Query {
	m := lockgen.Query{
		Name: q.Name, Command: q.Cmd, SQL: q.Text, Text: fmt.Sprintf("-- name: %s %s\n%s\n", q.Name, q.Cmd, q.Text),
		At: sources.query(q.Filename, q.Name),
	}
	for _, p := range append(q.Parameters, q.Params...) {
		m.Params = append(m.Params, p.model())
	}
	for _, text := range q.Comments {
		m.Comments = append(m.Comments, lockgen.Comment{Text: text, At: sources.comment(m.At, text)})
	}
	return m
}

func (p parameter) model() lockgen.Param {
	dims := p.Column.ArrayDims
	if p.Column.IsArray {
		dims = max(dims, 1)
	}
	name := p.Column.Type.Name
	if schema := p.Column.Type.Schema; schema != "" && schema != "pg_catalog" {
		name = schema + "." + name
	}
	return lockgen.Param{
		Number: p.Number, Name: p.Column.Name, Type: name, Nullable: !p.Column.NotNull, Dims: dims,
		Slice: p.Column.IsSlice,
	}
}

var errPrepared = errors.New("emit_prepared_queries is true, so queries would be sent by the names of prepared " +
	"statements, past the locks: set it to false, since some queries have a lock")
