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
	askExclusive      = load("ask_exclusive", 3)
	askShared         = load("ask_shared", 4)
	takeAll           = load("take_all", 4)
	takeMany          = load("take_many", 1)
	releaseExclusive  = load("release_exclusive", 4)
	releaseMany       = load("release_many", 1)
	releaseShared     = load("release_shared", 4)
	withdrawExclusive = load("withdraw_exclusive", 4)
	withdrawShared    = load("withdraw_shared", 4)
	renewExclusive    = load("renew_exclusive", 1)
	renewShared       = load("renew_shared", 2)
	releaseOwned      = load("release_owned", 4)
	withdrawOwned     = load("withdraw_owned", 4)
	renewOwned        = load("renew_owned", 2)
	checkOwned        = load("check_owned", 2)
	checkExclusive    = load("check_exclusive", 1)
	checkShared       = load("check_shared", 2)
	listHolders       = load("holders", 2)
	nextFence         = load("fence", 2)
	releaseSingleKey  = load("release_single_key", 1)
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
