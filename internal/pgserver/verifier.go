package pgserver

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// verifier returns what PostgreSQL keeps of a password (RFC 5803). It can be given in the place of the password. Iterations
// protect passwords that can be guessed. This one is random, and the usual 4,096 would cost every connection of a test
// milliseconds on both sides. lib/pq refuses fewer than these.
func verifier(password string) (string, error) {
	const iterations = 1000
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	stored := sha256.Sum256(sign(salted, "Client Key"))
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, text(salt), text(stored[:]), text(sign(salted, "Server Key"))), nil
}

func sign(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
