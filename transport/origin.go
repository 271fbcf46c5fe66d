package transport

import (
	"net/http"
	"net/url"
	"strings"

	"tidings/services"
)

// origins decides which pages in a browser may talk to us.
type origins struct {
	exact    map[string]bool // in lower case
	loopback bool            // pages of this machine may, whatever their port: in development mode
}

func newOrigins(list []string, identity *Identity) origins {
	set := origins{exact: make(map[string]bool, len(list)), loopback: identity != nil && identity.development}
	for _, origin := range list {
		set.exact[strings.ToLower(strings.TrimSuffix(origin, "/"))] = true
	}
	return set
}

// foreignPage refuses a request that allows does not allow.
func foreignPage(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return services.Errorf(services.Forbidden, "Origin: pages of other sites may not call this server: allow their origin with --origins (TIDINGS_ORIGINS)")
	}
	return services.Errorf(services.Forbidden, "Origin: pages of %s may not call this server: allow it with --origins (TIDINGS_ORIGINS)", services.Quote(origin))
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

// listed says whether the origin was configured or is this machine's in development mode, which is what the CORS headers need
// to know.
func (o origins) listed(origin string) bool {
	if o.exact[strings.ToLower(origin)] {
		return true
	}
	if !o.loopback {
		return false
	}
	parsed, err := url.Parse(origin)
	return err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https") && isLoopback(parsed.Host)
}

// grant writes the CORS headers for a listed origin; a page of our own host needs none.
func (o origins) grant(w http.ResponseWriter, r *http.Request) {
	if len(o.exact) == 0 && !o.loopback {
		return
	}
	header := w.Header()
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !o.listed(origin) {
		return
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", requestHeader+", Retry-After")
	if r.Method == http.MethodOptions {
		header.Set("Access-Control-Allow-Methods", streamMethods)
		header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, "+actAsHeader+", "+deviceHeader+", "+streamTokenHeader+", "+requestHeader)
		header.Set("Access-Control-Max-Age", "600")
	}
}
