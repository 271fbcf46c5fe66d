package trace

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	otel "go.opentelemetry.io/otel/trace"
)

// Handler records a span for each request, within the trace that its header traceparent names. Sockets and event streams have no span:
// they stay open for long, and each of their operations has a separate trace. A client that asks for an event stream names its type
// first in the header Accept. Other clients may name it last, with every query, and do not get a stream.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := processRecorder.Load()
		if recorder == nil || r.Header.Get("Upgrade") != "" || strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream") {
			next.ServeHTTP(w, r)
			return
		}
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := recorder.tracer.Start(ctx, spanMethod(r)+" /graphql", otel.WithSpanKind(otel.SpanKindServer))
		// A handler that writes no status has answered 200.
		answer := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			span.SetAttributes(attribute.String("http.request.method", spanMethod(r)), attribute.String("http.route", "/graphql"), attribute.Int("http.response.status_code", answer.status))
			if answer.status >= http.StatusInternalServerError {
				span.SetStatus(codes.Error, http.StatusText(answer.status))
			}
			span.End()
		}()
		next.ServeHTTP(answer, r.WithContext(ctx))
	})
}

// spanMethod returns the method of a request, or OTHER for a method that is not in the list, because a client may send any text.
func spanMethod(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "OTHER"
}

// statusRecorder is the ResponseWriter of a handler, which remembers the status.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status and passes it on.
func (a *statusRecorder) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController the writer with its deadlines.
func (a *statusRecorder) Unwrap() http.ResponseWriter { return a.ResponseWriter }
