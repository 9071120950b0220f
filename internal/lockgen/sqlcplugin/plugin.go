// Package sqlcplugin lets sqlc run the generator: it reads a request of sqlc's plugin protocol, in JSON, and writes the
// response.
package sqlcplugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/pglock-toolkit/pglock/internal/lockgen"
)

// Method is the one argument that sqlc gives to a plugin.
const Method = "/plugin.CodegenService/Generate"

// Run answers the request on in. To report the lines of mistakes, it looks for the files of the project in dir.
func Run(in io.Reader, out io.Writer, dir fs.FS) error {
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("read sqlc's request: %w (is there format: json below process: in sqlc.yaml?)", err)
	}
	code, err := generate(r, dir)
	if err != nil {
		return err
	}
	type file struct {
		Name     string `json:"name"`
		Contents []byte `json:"contents"`
	}
	return json.NewEncoder(out).Encode(map[string][]file{"files": {{lockgen.FileName, code}}})
}

func generate(r request, dir fs.FS) ([]byte, error) {
	if r.Settings.Engine != "postgresql" {
		return nil, fmt.Errorf("the engine is %q: advisory locks are PostgreSQL's", r.Settings.Engine)
	}
	input := lockgen.Input{Generator: "sqlc-gen-pglock", Package: path.Base(r.Settings.Codegen.Out)}
	if len(r.PluginOptions) > 0 {
		options := json.NewDecoder(bytes.NewReader(r.PluginOptions))
		options.DisallowUnknownFields()
		if err := options.Decode(&struct{ Package *string }{&input.Package}); err != nil {
			return nil, fmt.Errorf("options of the plugin: %w (its one option is package, the name of the Go package)", err)
		}
	}
	sources := newSources(dir, r.Settings.Queries)
	for _, q := range r.Queries {
		query := q.model()
		sources.locate(&query)
		input.Queries = append(input.Queries, query)
	}
	input.Comments = sources.leftovers()
	return lockgen.Generate(input)
}

// model converts a query for the generator.
func (q query) model() lockgen.Query {
	m := lockgen.Query{Name: q.Name, Command: q.Cmd, SQL: q.Text, At: lockgen.Position{File: q.Filename, Query: q.Name}}
	for _, p := range append(q.Parameters, q.Params...) {
		m.Params = append(m.Params, p.model())
	}
	for _, text := range q.Comments {
		m.Comments = append(m.Comments, lockgen.Comment{Text: text, At: m.At})
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
