package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"tidings/services"
)

// contentTypes are the content types of the embedded files, by file extension. The operating system's table is not used, because
// it differs between machines. If the extension of a file is missing here, the program panics when it makes its first handler.
var contentTypes = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".json": "application/json",
	".png":  "image/png",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// asset is a file as it is served. Only the compressed form is stored. Every browser accepts gzip; for any other client the file
// is inflated at each request. An asset never changes, so requests share it.
type asset struct {
	name        string // the name of the file, without its folder
	contentType string
	hash        string // 16 hexadecimal digits of the content's SHA-256; the compressed form is not hashed
	size        int    // of the content, inflated, in bytes
	compressed  []byte // the content, by gzip
}

// loadAssets reads what the page needs: the files of other projects, compressed under assets/vendor, our own files beside
// them, and the ready-made operations as one file. Names are without their folders, so no two files may have the same name.
// It runs once for a process, at the first handler: some megabytes are hashed, and our own files compressed.
func loadAssets(files fs.FS) (map[string]*asset, error) {
	assets := make(map[string]*asset)
	err := fs.WalkDir(files, "assets", func(file string, entry fs.DirEntry, err error) error {
		// Folders are skipped, and so are pages: they are templates, which are rendered for each handler.
		if err != nil || entry.IsDir() || path.Ext(file) == ".html" {
			return err
		}
		content, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		// Files of other projects are committed compressed, because they are large and nobody reads their changes.
		read, name := newAsset, path.Base(file)
		if path.Ext(name) == ".gz" {
			read, name = newCompressedAsset, strings.TrimSuffix(name, ".gz")
		}
		assets[name], err = read(name, content)
		return err
	})
	if err != nil {
		return nil, err
	}
	operations, err := operationsJSON(files)
	if err != nil {
		return nil, err
	}
	assets["operations.json"], err = newAsset("operations.json", operations)
	return assets, err
}

// newAsset makes an asset of a file's content. It uses the best compression, because a file is compressed once and sent often.
func newAsset(name string, content []byte) (*asset, error) {
	var compressed bytes.Buffer
	w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	// Close writes the rest and the checksum.
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	return newCompressedAsset(name, compressed.Bytes())
}

// newCompressedAsset makes an asset of a file that is compressed already. It is read once, for its hash and its length. A
// damaged file is found here and not by a browser.
func newCompressedAsset(name string, compressed []byte) (*asset, error) {
	contentType := contentTypes[path.Ext(name)]
	if contentType == "" {
		return nil, fmt.Errorf("%s: no content type is known for %q", name, path.Ext(name))
	}
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	// The content is hashed, because two builds may compress the same content differently.
	digest := sha256.New()
	size, err := io.Copy(digest, r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return &asset{
		name:        name,
		contentType: contentType,
		// 64 bits: enough to tell versions of one file apart.
		hash:       hex.EncodeToString(digest.Sum(nil))[:16],
		size:       int(size),
		compressed: compressed,
	}, nil
}

// path returns the asset's address, which changes with its content. A page and its files are from the same build, so an old page
// never gets a new script.
func (a *asset) path() string { return assetsPath + a.hash + "/" + a.name }

// serve answers a GET or a HEAD. The caller sets how long the answer may be cached. It does not answer ranges: no file is
// long enough to be resumed.
func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	compressed := services.AcceptsGzip(r.Header.Values("Accept-Encoding"))
	etag, length := `"`+a.hash+`"`, a.size
	if compressed {
		// Two forms of one file have two tags, so that a cache in between never mixes their bytes.
		etag, length = `"`+a.hash+`-gzip"`, len(a.compressed)
	}
	header := w.Header()
	// A 304 needs both headers too.
	header.Set("ETag", etag)
	header.Add("Vary", "Accept-Encoding")
	if matchesETag(r.Header.Values("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", a.contentType)
	header.Set("Content-Length", strconv.Itoa(length))
	if compressed {
		header.Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	// Errors from here on mean that the browser left, so there is nobody to report them to.
	if compressed {
		_, _ = w.Write(a.compressed)
		return
	}
	// The file is inflated again for each client without gzip, so that memory holds only the compressed form.
	if inflated, err := gzip.NewReader(bytes.NewReader(a.compressed)); err == nil {
		_, _ = io.Copy(w, inflated)
	}
}

// matchesETag compares tags as If-None-Match requires: a weak tag equals a strong one. The tags of this server are strong.
func matchesETag(values []string, etag string) bool {
	return slices.ContainsFunc(services.SplitListHeader(values), func(tag string) bool {
		return tag == "*" || strings.TrimPrefix(tag, "W/") == etag
	})
}
