package transport

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"tidings/services"
)

// requestParams are the parameters of a GraphQL request. The text can be replaced by the ID of a trusted document, or by a hash in the
// extension persistedQuery. parseParams and readURL make them, and resolveText sets their text.
type requestParams struct {
	graphql.RawParams
	documentID string // the ID of a trusted document; "" if the request does not name one
}

// check returns an error if the request has no text and names none, or if the text has an escape that stands for no character.
func (p *requestParams) check() error {
	if p.Query != "" {
		return checkQueryEscapes(p.Query)
	}
	if _, hashed := p.Extensions[persistedExtension]; hashed || p.documentID != "" {
		return nil
	}
	return services.Errorf(services.Invalid, "query: a text is needed, or a documentId")
}

const (
	persistedExtension      = "persistedQuery" // the extension that has a hash
	storedTextOverheadBytes = 256              // the approximate memory of a stored text beside the text itself
)

// persistedQueries finds the texts of requests that name them: trusted documents, which are loaded at the start, and the texts that
// clients have sent before with their hash (automatic persisted queries). It is safe for concurrent use.
type persistedQueries struct {
	// trusted is nil without a manifest: its methods then find nothing.
	trusted     *TrustedDocuments
	trustedOnly bool  // only trusted documents are executed
	maxBytes    int64 // bytes of stored texts; 0 stores none

	// mu guards the store of texts: bytes and textByHash.
	mu         sync.Mutex
	bytes      int64                      // about the memory of the stored texts; the callback of textByHash subtracts a dropped text
	textByHash *lru.LRU[textHash, string] // the stored texts; a full list drops the least recently used
}

// textHash is the SHA-256 of a text. It is the whole key, because nobody can make two texts of one hash.
type textHash [sha256.Size]byte

// newPersistedQueries makes the store. The list textByHash holds as many texts as would fit if all were empty, so the real bound is
// maxBytes.
func newPersistedQueries(cfg Config) *persistedQueries {
	p := &persistedQueries{trusted: cfg.Trusted, trustedOnly: cfg.TrustedOnly, maxBytes: max(0, cfg.MaxPersistedQueryBytes)}
	// With trustedOnly, no text is stored, because setTextByHash does not ask whether a stored text is trusted.
	if p.trustedOnly {
		p.maxBytes = 0
	}
	var err error
	p.textByHash, err = lru.NewLRU(int(p.maxBytes/storedTextOverheadBytes)+1, func(_ textHash, text string) { p.bytes -= storedTextOverheadBytes + int64(len(text)) })
	if err != nil {
		panic("transport: " + err.Error()) // only for a capacity below 1
	}
	return p
}

// resolveText sets the request's text and removes the extension that named it. If keep is not nil, it stores the text, and the
// caller calls it once the document is known to be valid: a stranger could otherwise fill the store with garbage. The extension
// is removed, because subscriptions share the memory of an operation only if it has no extensions (see sharedOperationContexts).
func (p *persistedQueries) resolveText(request *requestParams) (keep func(), err error) {
	extension, hashed := request.Extensions[persistedExtension]
	switch {
	case request.documentID != "" && (request.Query != "" || hashed):
		return nil, services.Errorf(services.Invalid, "documentId: send it alone, without a query or its hash")
	case request.documentID != "":
		text, known := p.trusted.byID(request.documentID)
		if !known {
			return nil, services.Errorf(services.NotFound, "documentId: no trusted document has this id")
		}
		request.Query = text
		return nil, nil
	case hashed:
		delete(request.Extensions, persistedExtension)
		hash, err := parseHash(extension)
		if err != nil {
			return nil, err
		}
		// Only the hash was sent. With TrustedOnly nothing is stored, so a text that is found is trusted.
		if request.Query == "" {
			return nil, p.setTextByHash(hash, request)
		}
		if sha256.Sum256([]byte(request.Query)) != hash {
			return nil, services.Errorf(services.Invalid, "extensions.persistedQuery.sha256Hash: is not the hash of the query beside it")
		}
		if p.maxBytes > 0 && !p.trusted.has(request.Query) {
			keep = func() { p.add(hash, request.Query) }
		}
	}
	// A text is trusted if it is in the manifest, whether or not the client sent its hash too.
	if p.trustedOnly && !p.trusted.has(request.Query) {
		return nil, services.Errorf(services.Forbidden, "query: only trusted documents are executed here (--trusted-only)")
	}
	return keep, nil
}

// setTextByHash sets the request's text to the text with the hash. The errors are defined by Apollo's protocol: after
// PersistedQueryNotSupported a client sends only texts, after PersistedQueryNotFound it sends this text with its hash.
func (p *persistedQueries) setTextByHash(hash textHash, request *requestParams) error {
	text, known := p.trusted.byHash(hash)
	if !known {
		text, known = p.get(hash)
	}
	switch {
	case known:
		request.Query = text
		return nil
	case p.maxBytes == 0 && p.trusted == nil:
		return services.Errorf(services.PersistedQueryNotSupported, "PersistedQueryNotSupported") // clients compare this message
	default:
		return services.Errorf(services.PersistedQueryNotFound, "PersistedQueryNotFound")
	}
}

// get finds a stored text, and marks it as the most recently used.
func (p *persistedQueries) get(hash textHash) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.textByHash.Get(hash)
}

// add stores a text, unless it is larger than the whole store.
func (p *persistedQueries) add(hash textHash, text string) {
	size := storedTextOverheadBytes + int64(len(text))
	p.mu.Lock()
	defer p.mu.Unlock()
	if size > p.maxBytes {
		return
	}
	// The lookup also marks the text as the most recently used, so a text that is sent again and again stays.
	if _, known := p.textByHash.Get(hash); known {
		return
	}
	p.bytes += size
	p.textByHash.Add(hash, text)
	for p.bytes > p.maxBytes {
		p.textByHash.RemoveOldest()
	}
}

// parseHash reads the extension persistedQuery. The version is a json.Number, because parseObject keeps numbers as they are.
func parseHash(extension any) (hash textHash, err error) {
	object, _ := extension.(map[string]any)
	version, _ := object["version"].(json.Number)
	text, _ := object["sha256Hash"].(string)
	if version != "1" || !decodeHash(text, &hash) {
		return hash, services.Errorf(services.Invalid, "extensions.persistedQuery: the version 1 and a sha256Hash of 64 hexadecimal digits in lower case are needed")
	}
	return hash, nil
}

// decodeHash reads 64 hexadecimal digits in lower case. Upper case is refused, so that each hash has one spelling.
func decodeHash(text string, hash *textHash) bool {
	if len(text) != 2*len(hash) {
		return false
	}
	for _, digit := range []byte(text) {
		if digit >= 'A' && digit <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(hash[:], []byte(text))
	return err == nil
}
