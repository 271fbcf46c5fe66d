package transport

import (
	"net/http"
	"net/url"
	"strings"
)

// origins decides which pages in a browser may talk to us.
type origins map[string]bool

func newOrigins(list []string) origins {
	set := make(origins, len(list))
	for _, origin := range list {
		set[strings.ToLower(strings.TrimSuffix(origin, "/"))] = true
	}
	return set
}

// allows says whether the request may be served: it comes from no browser, from a page of our own host, or
// from a listed origin. A token never rides in a cookie, so this stands behind the token and not instead of it.
func (o origins) allows(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		// A browser leaves Origin out of a plain GET, and tells where that comes from in another header.
		site := r.Header.Get("Sec-Fetch-Site")
		return site == "" || site == "same-origin" || site == "none"
	}
	if o.listed(origin) {
		return true
	}
	parsed, err := url.Parse(origin)
	return err == nil && parsed.Host != "" && strings.EqualFold(parsed.Host, r.Host)
}

// listed says whether the origin was configured, which is what the CORS headers need to know.
func (o origins) listed(origin string) bool { return o[strings.ToLower(origin)] }

// grant writes the CORS headers for a listed origin; a page of our own host needs none.
func (o origins) grant(w http.ResponseWriter, r *http.Request) {
	if len(o) == 0 {
		return
	}
	header := w.Header()
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !o.listed(origin) {
		return
	}
	header.Set("Access-Control-Allow-Origin", origin)
	if r.Method == http.MethodOptions {
		header.Set("Access-Control-Allow-Methods", streamMethods)
		header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, "+actAsHeader+", "+deviceHeader+", "+streamTokenHeader)
		header.Set("Access-Control-Max-Age", "600")
	}
}
