package transport

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"tidings/services"
)

// trustedPrefix begins the ID of a trusted document. It names the hash function, so that IDs of another kind can be added.
const trustedPrefix = "sha256:"

// TrustedDocuments are the documents of a manifest, which the build of the clients writes. nil means none. They never change while
// the server runs, so they need no lock, and answers that depend on them may be remembered.
type TrustedDocuments struct {
	textByHash map[textHash]string // the texts by their SHA-256
	// texts finds a document that a client sends in full; both maps share the strings.
	texts map[string]struct{}
}

// ReadTrustedDocuments reads a manifest: a JSON object of texts by their id, or the form of Apollo's tools, which has a list
// of operations with id and body. An id is the SHA-256 of its text in hexadecimal digits, with or without the prefix
// sha256:. A wrong id is an error, because a client that sends the right one would be refused.
func ReadTrustedDocuments(path string) (*TrustedDocuments, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	// The member format distinguishes the two forms: no hash has that name.
	var apollo struct {
		Format     string `json:"format"`
		Operations []struct{ ID, Body string }
	}
	byID := map[string]string{}
	if json.Unmarshal(text, &apollo) == nil && apollo.Format != "" {
		if apollo.Format != "apollo-persisted-query-manifest" {
			return nil, fmt.Errorf("the format %s is not known", services.Quote(apollo.Format))
		}
		for _, operation := range apollo.Operations {
			byID[operation.ID] = operation.Body
		}
	} else if err := json.Unmarshal(text, &byID); err != nil {
		return nil, fmt.Errorf("a JSON object of texts by their id is needed: %w", err)
	}
	trusted := &TrustedDocuments{textByHash: make(map[textHash]string, len(byID)), texts: make(map[string]struct{}, len(byID))}
	for id, text := range byID {
		var hash textHash
		if !decodeHash(strings.TrimPrefix(id, trustedPrefix), &hash) || sha256.Sum256([]byte(text)) != hash {
			return nil, fmt.Errorf("the id %s is not the SHA-256 of its text: 64 hexadecimal digits in lower case are needed, with or without sha256: before them", services.Quote(id))
		}
		trusted.textByHash[hash], trusted.texts[text] = text, struct{}{}
	}
	return trusted, nil
}

// byHash finds a document by the hash of automatic persisted queries.
func (t *TrustedDocuments) byHash(hash textHash) (text string, known bool) {
	if t == nil {
		return "", false
	}
	text, known = t.textByHash[hash]
	return text, known
}

// byID finds a document by its id in a request, which has the prefix: without it, the id could be one of another scheme.
func (t *TrustedDocuments) byID(id string) (text string, known bool) {
	var hash textHash
	digits, prefixed := strings.CutPrefix(id, trustedPrefix)
	if !prefixed || !decodeHash(digits, &hash) {
		return "", false
	}
	return t.byHash(hash)
}

// has reports whether a text is one of the manifest, byte for byte.
func (t *TrustedDocuments) has(text string) bool {
	if t == nil {
		return false
	}
	_, known := t.texts[text]
	return known
}

// logRefused logs the documents of the manifest that the server would refuse, because of the schema or a limit. This is a warning
// and no error, because the manifest may have documents of older clients too. logRefused also puts the good documents into the cache.
func (t *TrustedDocuments) logRefused(cfg Config, documents *documentPreparer) {
	if t == nil {
		return
	}
	for hash, text := range t.textByHash {
		if _, faults := documents.prepare(text); len(faults) > 0 {
			cfg.Log.Warn("a trusted document is refused", "id", trustedPrefix+hex.EncodeToString(hash[:]), "error", faults[0].Message)
		}
	}
}
