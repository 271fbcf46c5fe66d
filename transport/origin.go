package transport

import (
	"net/http"
	"net/url"
	"strings"

	"tidings/services"
)

// allowedOrigins decides which browser pages may call the server. Other clients send no Origin and are not concerned.
type allowedOrigins struct {
	configured     map[string]bool // the configured origins, in lower case
	allowsLoopback bool            // in development mode: pages of this machine may call, whatever their port
}

// newOrigins reads the configured list of origins. It drops a slash at the end: people write it, and browsers never send it.
func newOrigins(list []string, identity *Identity) allowedOrigins {
	set := allowedOrigins{configured: make(map[string]bool, len(list)), allowsLoopback: identity != nil && identity.development}
	for _, origin := range list {
		// In lower case, as browsers send origins: operators write them as they like.
		set.configured[strings.ToLower(strings.TrimSuffix(origin, "/"))] = true
	}
	return set
}

// foreignPageError returns the error for a request that allows rejects. It names the flag to set, because a first deployment often
// gets this error.
func foreignPageError(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return services.Errorf(services.Forbidden, "Origin: pages of other sites may not call this server: allow their origin with --origins (TIDINGS_ORIGINS)")
	}
	return services.Errorf(services.Forbidden, "Origin: pages of %s may not call this server: allow it with --origins (TIDINGS_ORIGINS)", services.Quote(origin))
}

// allows reports whether the request may be served: it is not from a browser, or from a page of this host or of a configured
// origin. Tokens are never in cookies, so this check adds to the token and does not replace it.
func (o allowedOrigins) allows(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		// A browser sends no Origin with a plain GET, but describes the caller in another header.
		site := r.Header.Get("Sec-Fetch-Site")
		return site == "" || site == "same-origin" || site == "none"
	}
	if o.isListed(origin) {
		return true
	}
	// The scheme is not compared: a proxy in front may end TLS, and the request here does not know it.
	parsed, err := url.Parse(origin)
	return err == nil && parsed.Host != "" && strings.EqualFold(parsed.Host, r.Host)
}

// isListed reports whether the origin was configured, or is of this machine in development mode. Only listed origins get CORS
// headers. The text of an opaque origin, null, has no host and is never of this machine.
func (o allowedOrigins) isListed(origin string) bool {
	if o.configured[strings.ToLower(origin)] {
		return true
	}
	if !o.allowsLoopback {
		return false
	}
	parsed, err := url.Parse(origin)
	return err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https") && isLoopback(parsed.Host)
}

// writeCORSHeaders writes the CORS headers for a listed origin; a page of this host needs none. It repeats the origin instead of a
// star, and allows no credentials: tokens are in a header, never in cookies.
func (o allowedOrigins) writeCORSHeaders(w http.ResponseWriter, r *http.Request) {
	if len(o.configured) == 0 && !o.allowsLoopback {
		return
	}
	header := w.Header()
	// Vary is set even without a grant, so that no cache serves the refusal to a page that is allowed.
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !o.isListed(origin) {
		return
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", requestIDHeader+", Retry-After")
	if r.Method == http.MethodOptions {
		header.Set("Access-Control-Allow-Methods", methodsWithStreams)
		// A page may send only the headers listed here. Clients of Tidings need no other.
		header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, "+actAsHeader+", "+deviceHeader+", "+streamTokenHeader+", "+requestIDHeader)
		// Ten minutes: a browser asks again after that, and sees a change of the list.
		header.Set("Access-Control-Max-Age", "600")
	}
}
