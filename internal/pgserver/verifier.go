package pgserver

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// Verifier returns what PostgreSQL keeps of a password (RFC 5803), which can be given in the place of the password. It has
// one iteration, as these protect passwords that can be guessed: the usual 4,096 would cost every connection milliseconds.
func Verifier(password string) string {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt)                                            // never fails
	salted := sign([]byte(password), string(salt)+"\x00\x00\x00\x01") // PBKDF2 of one iteration
	stored := sha256.Sum256(sign(salted, "Client Key"))
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$1:%s$%s:%s", text(salt), text(stored[:]), text(sign(salted, "Server Key")))
}

func sign(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
