package transport

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"tidings/services"
)

// TokenSettings are the key that a token must be signed with, and the claims that it must have. At most one of the first three is set,
// because it alone determines the algorithm of tokens. Without the claims, any token signed by the key is accepted, even a token that
// the issuer made for another service.
type TokenSettings struct {
	HMACSecret    string `name:"jwt-secret" for:"serve,token" placeholder:"TEXT" secret:"all" help:"the key of HS256 tokens, at least 32 bytes; safer in the environment, because other users can read a command line"`
	PublicKeyFile string `name:"jwt-public-key" placeholder:"FILE" help:"the PEM public key of RS256 or EdDSA tokens"`
	JWKS          string `placeholder:"FILE|URL" secret:"url" help:"a JSON Web Key Set, as a file or an http(s) address"`
	Audience      string `name:"jwt-audience" for:"serve,token" placeholder:"TEXT" help:"the aud that a token must have; empty: it is not checked"`
	Issuer        string `name:"jwt-issuer" for:"serve,token" placeholder:"TEXT" help:"the iss that a token must have; empty: it is not checked"`
}

// HasKey reports whether there is a key. Without one a server is in development mode.
func (s TokenSettings) HasKey() bool {
	return s.HMACSecret != "" || s.PublicKeyFile != "" || s.JWKS != ""
}

// KeyFlag returns the setting that holds the key for tokens, for error messages. It is called outside of development mode only,
// where one of the three keys is set.
func (s TokenSettings) KeyFlag() string {
	switch {
	case s.HMACSecret != "":
		return "--jwt-secret (TIDINGS_JWT_SECRET)"
	case s.PublicKeyFile != "":
		return "--jwt-public-key (TIDINGS_JWT_PUBLIC_KEY)"
	}
	return "--jwks (TIDINGS_JWKS)"
}

// KeyNeededAdvice is the end of the errors about anything that development mode does not allow. It is one text, so that all of them
// name the same three settings.
const KeyNeededAdvice = "configure --jwt-secret (TIDINGS_JWT_SECRET), --jwt-public-key (TIDINGS_JWT_PUBLIC_KEY) or --jwks (TIDINGS_JWKS)"

// Faults returns the reasons why settings are invalid, by flag.
func (s TokenSettings) Faults() map[string]string {
	faults := map[string]string{"jwt-secret": "", "jwt-public-key": "", "jwks": s.checkJWKS(), "jwt-audience": "", "jwt-issuer": ""}
	// NewIdentity demands this too. Here it is reported together with the other faults, and before anything is opened.
	if s.HMACSecret != "" && len(s.HMACSecret) < 32 {
		faults["jwt-secret"] = fmt.Sprintf("at least 32 bytes are needed, got %d", len(s.HMACSecret))
	}
	// With two keys it would be unclear which one a token must be signed with.
	if s.PublicKeyFile != "" && s.HMACSecret != "" {
		faults["jwt-public-key"] = "only one key for tokens is allowed, and --jwt-secret is set"
	}
	// Without a key the claims of tokens are not checked. The operator must not believe that they are.
	for flag, claim := range map[string]string{"jwt-audience": s.Audience, "jwt-issuer": s.Issuer} {
		if claim != "" && !s.HasKey() {
			faults[flag] = "without a key for tokens it has no effect; " + KeyNeededAdvice
		}
	}
	return faults
}

// checkJWKS checks that there is one source of keys, and that an address has a scheme which can be read. Anything without a
// scheme is a file.
func (s TokenSettings) checkJWKS() string {
	if s.JWKS != "" && (s.HMACSecret != "" || s.PublicKeyFile != "") {
		return "only one key for tokens is allowed, and --jwt-secret or --jwt-public-key is set"
	}
	if scheme, _, address := strings.Cut(s.JWKS, "://"); address && scheme != "https" && scheme != "http" {
		return "it must be a file or an address with http:// or https://"
	}
	return ""
}

// OriginSettings are the pages that may call, besides those of the server's own origin.
type OriginSettings struct {
	Allowed []string `name:"origins" placeholder:"LIST" help:"other origins whose pages may call the server, exact and separated by commas: https://app.example.com; empty: only its own origin, and in development mode every page of this machine"`
}

// Faults returns the reasons why settings are invalid, by flag.
func (s OriginSettings) Faults() map[string]string {
	return map[string]string{"origins": checkOrigins(s.Allowed)}
}

// checkOrigins checks that each origin is written as browsers send it: a path or a slash behind it would never match.
// Browsers send a host in lower case and leave out the scheme's own port.
func checkOrigins(origins []string) string {
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
			return services.Quote(origin) + " is not an origin like scheme://host or scheme://host:port"
		}
	}
	return ""
}

// ProxySettings are the proxies in front of the server.
type ProxySettings struct {
	Trusted []string `name:"trusted-proxies" placeholder:"LIST" help:"the addresses and networks (10.0.0.0/8) of proxies in front of this server; the client of their requests is the last other address in X-Forwarded-For; empty: the header is ignored"`
}

// Faults returns the reasons why settings are invalid, by flag.
func (s ProxySettings) Faults() map[string]string {
	return map[string]string{"trusted-proxies": services.CheckNetworks(s.Trusted)}
}

// Networks are the networks of the proxies. Faults has checked them.
func (s ProxySettings) Networks() []netip.Prefix {
	networks, _ := services.ParseNetworks(s.Trusted)
	return networks
}

// RequestSettings keep one request of any client from taking more than its share. Each bound is checked before the work that it bounds:
// the body before it is parsed, the document's tokens before validation, the cost before execution. Requests with the scope ingest may
// have longer bodies, because events come in batches of up to 500.
type RequestSettings struct {
	OperationTimeout time.Duration  `default:"5s" placeholder:"DURATION" min:"100ms" max:"1m" help:"the longest time for one query or mutation"`
	BodyLimit        int64          `default:"65536" placeholder:"BYTES" min:"1024" max:"16777216" help:"the longest request body"`
	IngestBodyLimit  int64          `default:"1048576" placeholder:"BYTES" min:"1024" max:"16777216" help:"the longest request body with the scope ingest"`
	MaxQueryTokens   int            `name:"query-tokens" default:"1000" placeholder:"TOKENS" min:"100" max:"100000" help:"the longest query document"`
	DocumentLimits   DocumentLimits `embed:""`

	MaxQueryCost           int    `name:"query-cost" default:"30000" placeholder:"COST" min:"100" max:"1000000000" help:"the highest cost of one operation: each field counts 1 or more, times the items (first) of each list around it; the cost of an executed query is charged to READS of --rate-limits"`
	QueryCacheBytes        int64  `name:"query-cache" default:"33554432" placeholder:"BYTES" min:"65536" max:"1073741824" help:"the memory for the cache of parsed queries, roughly"`
	MaxPersistedQueryBytes int64  `name:"persisted-queries" default:"8388608" placeholder:"BYTES" min:"0" max:"1073741824" help:"the memory for automatic persisted queries, which clients send once with their hash and then by the hash alone; 0: no hashes are accepted"`
	TrustedDocuments       string `placeholder:"FILE" help:"a JSON manifest of queries that clients may name by an id (documentId or hash): an object with the text of each sha256:HASH, or the manifest of Apollo's tools"`
	TrustedOnly            bool   `help:"execute only the queries of --trusted-documents"`
	// MaxAnswerBytes bounds the memory that one request can take, whatever its computed cost: unlike the cost, it does not depend on
	// weights, which may be wrong.
	MaxAnswerBytes int `name:"answer-limit" default:"4194304" placeholder:"BYTES" min:"65536" max:"1073741824" help:"the longest answer, and the longest event of a subscription; a longer one is replaced by an error"`

	// RequestDeadline and ConnectionsPerAddress are for the server around the handler. The default of ConnectionsPerAddress is above
	// that of SocketSettings.MaxPerAddress, so that an address with all of its sockets open can still send requests.
	RequestDeadline       time.Duration `default:"10s" placeholder:"DURATION" min:"100ms" max:"10m" help:"the longest time for a request to arrive, its body included, and for a message of a socket"`
	WriteTimeout          time.Duration `name:"answer-deadline" default:"30s" placeholder:"DURATION" min:"100ms" max:"10m" help:"the longest time for a client to read one answer, after which it is disconnected"`
	ConnectionsPerAddress int           `default:"3000" placeholder:"COUNT" min:"0" max:"1000000" help:"the most connections of one address, sockets included; 0: no limit; it does not apply to trusted proxies or in development mode"`
}

// Faults returns the reasons why settings are invalid, by flag.
func (s RequestSettings) Faults() map[string]string {
	faults := map[string]string{"trusted-only": "", "ingest-body-limit": ""}
	// Without --trusted-documents the node would refuse every document.
	if s.TrustedOnly && s.TrustedDocuments == "" {
		faults["trusted-only"] = "it needs --trusted-documents (TIDINGS_TRUSTED_DOCUMENTS)"
	}
	// The limit for the application's own tokens must not be below --body-limit: Front, which checks --body-limit alone, would not apply
	// it.
	if s.IngestBodyLimit < s.BodyLimit {
		faults["ingest-body-limit"] = fmt.Sprintf("it must be at least --body-limit, %d", s.BodyLimit)
	}
	return faults
}

// SocketSettings bound what one client can take by sockets and event streams. A user has several devices and tabs; one user with
// thousands of sockets is a mistake or an attack. MaxPerAddress also bounds clients without a token.
type SocketSettings struct {
	MaxOperations int           `name:"socket-subscriptions" default:"20" placeholder:"COUNT" min:"1" max:"1000" help:"the most subscriptions of one socket or event stream"`
	WriteTimeout  time.Duration `name:"socket-write-deadline" default:"10s" placeholder:"DURATION" min:"100ms" max:"1m" help:"the longest time for a client to read one message of a socket or event stream, after which it is disconnected"`
	MaxPerUser    int           `name:"sockets-per-user" default:"50" placeholder:"COUNT" min:"0" max:"1000000" help:"the most open sockets and event streams of one user on this node; 0: no limit"`
	MaxPerAddress int           `name:"sockets-per-address" default:"2000" placeholder:"COUNT" min:"0" max:"1000000" help:"the most open sockets and event streams of one address on this node; 0: no limit; behind a proxy set --trusted-proxies, or all clients count as one address"`
}
