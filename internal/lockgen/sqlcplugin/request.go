package sqlcplugin

// request is the part of sqlc's GenerateRequest that matters here. The field with a query's
// parameters has had two names.
type request struct {
	Settings      settings `json:"settings"`
	Queries       []query  `json:"queries"`
	PluginOptions []byte   `json:"plugin_options"`
}

type settings struct {
	Engine  string   `json:"engine"`
	Queries []string `json:"queries"`
	Codegen codegen  `json:"codegen"`
}

type codegen struct {
	Out    string `json:"out"`
	Plugin string `json:"plugin"`
}

type query struct {
	Text       string      `json:"text"`
	Name       string      `json:"name"`
	Cmd        string      `json:"cmd"`
	Params     []parameter `json:"params"`
	Parameters []parameter `json:"parameters"`
	Comments   []string    `json:"comments"`
	Filename   string      `json:"filename"`
}

type parameter struct {
	Number int    `json:"number"`
	Column column `json:"column"`
}

type column struct {
	Name      string     `json:"name"`
	NotNull   bool       `json:"not_null"`
	IsArray   bool       `json:"is_array"`
	Type      identifier `json:"type"`
	ArrayDims int        `json:"array_dims"`
	IsSlice   bool       `json:"is_sqlc_slice"`
}

type identifier struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
}
