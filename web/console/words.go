package console

import (
	"html/template"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// links are the pages of the navigation.
var links = []struct{ Path, Name string }{
	{root, "Overview"}, {root + "/webhooks", "Webhooks"}, {root + "/users", "Users"}, {root + "/acts", "Acts"},
}

// words are the functions of the templates. Templates have no other functions: what a page says is here or in its template.
func (c *Console) words() template.FuncMap {
	return template.FuncMap{
		"links": func() any { return links },
		// A clock that is behind makes an age 0, see age.
		"ago":   func(at time.Time) string { return age(c.cfg.Now().Sub(at)) + " ago" },
		"age":   age,
		"ms":    func(ms int64) string { return age(time.Duration(ms) * time.Millisecond) },
		"utc":   func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") },
		"iso":   func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
		"dash":  orDash,
		"label": label,
		"value": number,
		"name":  func(metric string) string { return strings.TrimPrefix(metric, "tidings_") },
		"limit": func(list int) int { return min(list, shownItems) },
		"minus": func(a, b int) int { return a - b },
	}
}

// orDash is a text that may be missing. An empty cell would look like a page that is not complete.
func orDash(text *string) string {
	if text == nil || *text == "" {
		return "–"
	}
	return *text
}

// label is a constant of the schema in words: HOME_FEED is "home feed". The API's words are shown as they are, only easier to
// read: an operator finds them again in its documentation.
func label(constant string) string { return strings.ToLower(strings.ReplaceAll(constant, "_", " ")) }

// age is a duration for people: one unit, two digits or more of it, so that what matters is seen at a glance. Negative ones
// are 0. It changes the unit late, so that 90 s do not become 1 min.
func age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 2*time.Minute:
		return strconv.FormatInt(int64(d.Seconds()), 10) + " s"
	case d < 2*time.Hour:
		return strconv.FormatInt(int64(d.Minutes()), 10) + " min"
	case d < 48*time.Hour:
		return strconv.FormatInt(int64(d.Hours()), 10) + " h"
	}
	return strconv.FormatInt(int64(d.Hours()/24), 10) + " days"
}

// number is the value of a metric: whole numbers without a point, as most are. 1e15 is well within what a float64 holds
// exactly.
func number(value float64) string {
	if value == math.Trunc(value) && math.Abs(value) < 1e15 {
		return strconv.FormatInt(int64(value), 10)
	}
	return strconv.FormatFloat(value, 'f', 3, 64)
}

// shownURL is the scheme and the host of an address: the rest may be a secret of the receiver. A user and a password before
// the host are left out with it.
func shownURL(text string) string {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" {
		return "–"
	}
	shown := parsed.Scheme + "://" + parsed.Host
	if parsed.Path != "" && parsed.Path != "/" || parsed.RawQuery != "" {
		shown += "/…"
	}
	return shown
}
