package console

import (
	"net/http"
	"strings"
	"time"

	"tidings/services"
)

// The operator's token itself is in the console's cookie, so a node needs no memory of sessions, and every node knows every operator.
const (
	cookieName    = "tidings_console"
	maxTokenBytes = 3800 // bytes: browsers keep cookies of 4,096 with their attributes
	// developerToken is the token that development mode uses for operators who enter no token.
	developerToken = "dev:operator:admin"
)

// requireOperator serves a page to operators alone. A request without an operator's token gets the form to sign in, under the
// address that it asked for. The page of the form has the status of the refusal, so that a script sees it.
func (c *Console) requireOperator(serve func(*pageRequest)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		viewer, err := c.operator(r)
		if err != nil {
			c.showSignIn(w, err)
			return
		}
		serve(&pageRequest{w: w, r: r, ctx: services.WithViewer(r.Context(), viewer), viewer: viewer})
	}
}

// operator returns the operator of a request. The error is UNAUTHENTICATED, FORBIDDEN, or the reason why the keys that verify
// tokens could not be read.
func (c *Console) operator(r *http.Request) (services.Viewer, error) {
	token := ""
	// No cookie is the same as an empty cookie.
	if cookie, err := r.Cookie(cookieName); err == nil {
		token = cookie.Value
	}
	switch {
	// Only development mode, which accepts any token, signs an operator in without a token.
	case token == "" && c.cfg.Development:
		token = developerToken
	case token == "":
		return services.Viewer{}, services.Errorf(services.Unauthenticated, "A token with the scope admin is needed.")
	}
	viewer, _, err := c.identifyOperator(r, token)
	return viewer, err
}

// identifyOperator checks a token. The token itself must have the scope admin: acting for a user does not give it.
func (c *Console) identifyOperator(r *http.Request, token string) (services.Viewer, time.Time, error) {
	viewer, expires, err := c.cfg.Identify(r.Context(), token)
	// The scopes are the scopes of the token itself: an application that acts for a user keeps its own.
	if err == nil && !viewer.Has(services.ScopeAdmin) {
		err = services.Errorf(services.Forbidden, "The token is valid but lacks the scope admin.")
	}
	if err != nil {
		return services.Viewer{}, time.Time{}, err
	}
	return viewer, expires, nil
}

// showSignIn writes the form to sign in, with the reason why it is needed.
func (c *Console) showSignIn(w http.ResponseWriter, err error) {
	c.write(w, statusOf(err), "sign-in", page{Title: "Sign in", Error: errorText(err)})
}

// signIn checks the token of the form and puts it into the cookie. The answer is a redirect, so that reloading the page does not
// send the form again. A token that is refused is neither stored nor repeated in the page.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimSpace(r.PostFormValue("token")) // of the body alone: an address must not hold a token
	switch {
	case token == "":
		c.showSignIn(w, services.Errorf(services.Unauthenticated, "A token with the scope admin is needed."))
		return
	case len(token) > maxTokenBytes:
		c.showSignIn(w, services.Errorf(services.Unauthenticated, "The token has more than %d bytes: a cookie cannot hold it.", maxTokenBytes))
		return
	}
	_, expires, err := c.identifyOperator(r, token)
	if err != nil {
		c.showSignIn(w, err)
		return
	}
	cookie := c.newTokenCookie(r, token)
	cookie.Expires = expires // zero: the end of the browser's session
	http.SetCookie(w, cookie)
	http.Redirect(w, r, rootPath, http.StatusSeeOther)
}

// signOut drops the cookie. It does not revoke the token. It works without a valid token, so that an operator with an expired
// token can sign out too.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	cookie := c.newTokenCookie(r, "")
	cookie.MaxAge = -1
	http.SetCookie(w, cookie)
	c.write(w, http.StatusOK, "sign-in", page{Title: "Sign in", Notice: "You are signed out."})
}

// newTokenCookie makes a cookie that is sent to the console alone, and with no request from another site. Over plain HTTP it is not
// marked Secure, because a browser would not store it.
func (c *Console) newTokenCookie(r *http.Request, value string) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: rootPath, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"),
	}
}
