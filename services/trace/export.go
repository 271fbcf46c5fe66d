package trace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Config says where the spans go.
type Config struct {
	Settings
	Node    string              // this node's name
	Version string              // of the program
	Env     func(string) string // reads an environment variable of OpenTelemetry
	Log     *slog.Logger
}

// sendTimeout is the default of OpenTelemetry. The end of the process waits at most closeTimeout.
const (
	tracesPath   = "/v1/traces"     // of a collector's address
	sendTimeout  = 10 * time.Second // of one batch of spans
	closeTimeout = time.Second      // of Recorder.Close
)

// Recorder sends the spans of this process to a collector.
type Recorder struct {
	provider *sdk.TracerProvider
	tracer   otel.Tracer
}

// Open begins to record spans. It returns nil if no collector is configured, and an error for environment variables that ask for what
// this program cannot do. It does not wait for the collector. The library reads the variables of the sampler, of the queue
// (OTEL_BSP_...) and of the service's name and attributes.
func Open(ctx context.Context, cfg Config) (*Recorder, error) {
	address := cfg.Env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if address == "" && cfg.Endpoint != "" {
		address = strings.TrimSuffix(cfg.Endpoint, "/") + tracesPath
	}
	if address == "" || cfg.Env("OTEL_TRACES_EXPORTER") == "none" || strings.EqualFold(cfg.Env("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	// Everything that can fail comes before the recorder becomes active.
	sender, err := newSender(address, cfg)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, sender)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "tidings"), attribute.String("service.version", cfg.Version), attribute.String("service.instance.id", cfg.Node),
	), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	r := &Recorder{provider: sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))}
	r.tracer = r.provider.Tracer("tidings", otel.WithInstrumentationVersion(cfg.Version))
	processRecorder.Store(r)
	return r, nil
}

// Close ends the recording, and sends the waiting spans if the collector takes them within a second.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	// In tests another recorder may be active by now: it stays.
	processRecorder.CompareAndSwap(r, nil)
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = r.provider.Shutdown(ctx) // the sender has logged why
}

// sender posts spans to a collector, by OTLP over HTTP. The library's own client imports gRPC, which no request uses and which
// takes longer to build than all other code of this package.
type sender struct {
	address string      // of the collector
	headers http.Header // of each request to the collector
	client  *http.Client
	log     *slog.Logger
	failing atomic.Bool // the last batch was not taken, and the log says so
}

// newSender makes a sender. It reads the environment variables of OpenTelemetry that the library's own client would read.
func newSender(address string, cfg Config) (*sender, error) {
	switch protocol := cmp.Or(cfg.Env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), cfg.Env("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"); {
	case protocol != "http/protobuf":
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %s: only http/protobuf is supported, usually on port 4318", strconv.Quote(protocol))
	case checkEndpoint(address) != "":
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: %s", checkEndpoint(address))
	}
	s := &sender{address: address, headers: http.Header{}, log: cfg.Log, client: &http.Client{Timeout: sendTimeout}}
	if text := cmp.Or(cfg.Env("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"), cfg.Env("OTEL_EXPORTER_OTLP_TIMEOUT")); text != "" {
		milliseconds, err := strconv.Atoi(text)
		if err != nil || milliseconds <= 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %s: whole milliseconds are allowed", strconv.Quote(text))
		}
		s.client.Timeout = time.Duration(milliseconds) * time.Millisecond
	}
	for pair := range strings.SplitSeq(cmp.Or(cfg.Env("OTEL_EXPORTER_OTLP_TRACES_HEADERS"), cfg.Env("OTEL_EXPORTER_OTLP_HEADERS")), ",") {
		name, value, found := strings.Cut(strings.TrimSpace(pair), "=")
		if decoded, err := url.PathUnescape(value); found && err == nil {
			s.headers.Set(strings.TrimSpace(name), strings.TrimSpace(decoded))
		} else if pair != "" {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS: it must be NAME=VALUE,NAME=VALUE") // a value may be secret
		}
	}
	s.headers.Set("Content-Type", "application/x-protobuf")
	return s, nil
}

// Start does nothing: the first spans make the connection.
func (s *sender) Start(context.Context) error { return nil }

// Stop closes the connections.
func (s *sender) Stop(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans, once. It returns no error, because the library would log each error.
func (s *sender) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	err := s.post(ctx, spans)
	switch {
	case err != nil && s.failing.CompareAndSwap(false, true):
		s.log.Warn("spans are lost: the collector does not take them", "error", err)
	case err == nil && s.failing.CompareAndSwap(true, false):
		s.log.Info("the collector takes spans again")
	}
	return nil
}

// post sends one batch. A batch that fails is lost: to keep it would let the queue grow while the collector is away.
func (s *sender) post(ctx context.Context, spans []*otlp.ResourceSpans) error {
	// TracesData has the same encoding as the request type of OTLP, which would import gRPC.
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = s.headers.Clone()
	response, err := s.client.Do(request)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err // without the address, which may have a password
	}
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection is used again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("status %s", response.Status)
	}
	return nil
}
