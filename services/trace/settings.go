package trace

import "net/url"

// Settings are the settings of spans.
type Settings struct {
	Endpoint string `name:"traces" variable:"OTEL_EXPORTER_OTLP_ENDPOINT" placeholder:"URL" secret:"url" help:"the collector that spans of OpenTelemetry are sent to, by OTLP over HTTP: http://127.0.0.1:4318; empty: none are recorded; OpenTelemetry's other variables hold too: OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME and so on"`
}

// Faults returns the reasons why settings are invalid, by flag.
func (s Settings) Faults() map[string]string {
	reason := ""
	if s.Endpoint != "" {
		reason = checkEndpoint(s.Endpoint)
	}
	return map[string]string{"traces": reason}
}

// checkEndpoint returns why the address of a collector is invalid, or "".
func checkEndpoint(address string) string {
	at, err := url.Parse(address)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return "it must be the address of a collector for OTLP over HTTP, like http://127.0.0.1:4318"
	}
	return ""
}
