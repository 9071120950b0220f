package redisfallback

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
)

// script is a Lua script. It is sent by its hash, and in full if the server does not know it.
type script struct {
	text string
	sha  string
	keys int // how many of a lock's keys it uses
}

//go:embed lua/*.lua
var sources embed.FS

var (
	checkRights   = load("rights", 4)
	take          = load("take", 3)
	look          = load("look", 1)
	share         = load("share", 4)
	release       = load("release", 4)
	releaseAlone  = load("release_alone", 1)
	releaseShared = load("release_shared", 4)
	renew         = load("renew", 1)
	renewShared   = load("renew_shared", 2)
	listHolders   = load("holders", 2)
	nextFence     = load("fence", 2)
)

// load reads a script from the files in this package.
func load(name string, keys int) *script {
	text := strings.Replace(source(name), "--include common\n", source("common"), 1)
	sum := sha1.Sum([]byte(text)) // what EVALSHA takes
	return &script{text: text, sha: hex.EncodeToString(sum[:]), keys: keys}
}

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(fmt.Sprintf("redisfallback: the embedded script %s: %v", name, err))
	}
	return string(text)
}
