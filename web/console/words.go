package console

import (
	"html/template"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// navigationLinks are the pages of the navigation.
var navigationLinks = []struct{ Path, Name string }{
	{rootPath, "Overview"}, {rootPath + "/webhooks", "Webhooks"}, {rootPath + "/users", "Users"}, {rootPath + "/acts", "Acts"},
}

// templateFuncs returns the functions of the templates. Templates have no other functions: what a page says is here or in its
// template.
func (c *Console) templateFuncs() template.FuncMap {
	return template.FuncMap{
		"links": func() any { return navigationLinks },
		// If this node's clock is behind, the age is 0: see formatAge.
		"ago":   func(at time.Time) string { return formatAge(c.cfg.Now().Sub(at)) + " ago" },
		"age":   formatAge,
		"ms":    func(ms int64) string { return formatAge(time.Duration(ms) * time.Millisecond) },
		"utc":   func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") },
		"iso":   func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
		"dash":  orDash,
		"label": constantWords,
		"value": formatNumber,
		"name":  func(metric string) string { return strings.TrimPrefix(metric, "tidings_") },
		"limit": func(list int) int { return min(list, maxShownItems) },
		"minus": func(a, b int) int { return a - b },
	}
}

// orDash returns a text, or a dash if it is missing. With an empty cell the page would look incomplete.
func orDash(text *string) string {
	if text == nil || *text == "" {
		return "–"
	}
	return *text
}

// constantWords returns a constant of the schema in words: HOME_FEED is "home feed". The API's words are shown as they are, only
// easier to read: an operator finds them again in its documentation.
func constantWords(constant string) string {
	return strings.ToLower(strings.ReplaceAll(constant, "_", " "))
}

// formatAge formats a duration for people as a whole number of one unit, rounded down. Minutes, hours and days begin at two: 90 s stay
// 90 s. Negative durations are shown as 0.
func formatAge(d time.Duration) string {
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

// formatNumber formats the value of a metric. Most are whole numbers, which are written without a decimal point. Every whole number
// below 1e15 is exact in a float64.
func formatNumber(value float64) string {
	if value == math.Trunc(value) && math.Abs(value) < 1e15 {
		return strconv.FormatInt(int64(value), 10)
	}
	return strconv.FormatFloat(value, 'f', 3, 64)
}

// redactedURL returns the scheme and the host of an address. The rest, including a user and a password before the host, is left out
// because it may be a secret of the receiver.
func redactedURL(text string) string {
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
