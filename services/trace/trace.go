// Package trace records spans with OpenTelemetry and sends them to a collector. It knows no feature: the servers that take requests, and
// the engines, begin the spans.
//
// It guarantees that nothing waits for the collector: spans wait in a bounded queue, and spans that do not fit are
// dropped. Without a collector a span costs one atomic read. A span has names and counts alone: no text of a query, no
// variable, no key of a user.
//
// While the collector does not answer, its spans are lost; the log says when that begins and when it ends.
//
// A trace begins where a request arrives, with Handler or StartOperation. Start adds the spans of the request's work in SQL and Redis. A
// job and a hint carry their Cause, so that StartFrom can tie their work, later and on any node, to the trace of the request.
package trace

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	otel "go.opentelemetry.io/otel/trace"

	"tidings/services"
)

// processRecorder records the spans of this process, nil without a collector. It is global, as OpenTelemetry's own provider is: in a
// test several nodes share the engines, which cannot know for which node they work.
var processRecorder atomic.Pointer[Recorder]

// Enabled reports whether spans are recorded at all. Callers that would have to make a name or a list for a span ask first.
func Enabled() bool { return processRecorder.Load() != nil }

// Span is a piece of work. The zero value records nothing.
type Span struct{ span otel.Span }

// Start begins a span within the span of ctx. If ctx has no span, it records nothing: work that no request caused has no trace. The
// span's name is kind and what, separated by a space.
func Start(ctx context.Context, kind, what string) (context.Context, Span) {
	r := processRecorder.Load()
	if r == nil || !otel.SpanFromContext(ctx).IsRecording() {
		return ctx, Span{}
	}
	return r.begin(ctx, spanName(kind, what), otel.WithSpanKind(otel.SpanKindClient))
}

// StartOperation begins a span within the span of ctx, or the first span of a new trace.
func StartOperation(ctx context.Context, kind, what string) (context.Context, Span) {
	r := processRecorder.Load()
	if r == nil {
		return ctx, Span{}
	}
	return r.begin(ctx, spanName(kind, what))
}

// maxLinkedCauses bounds the links of a span: a batch of a thousand jobs has as many causes.
const maxLinkedCauses = 64

// StartFrom begins the span of work that earlier requests caused. With one cause the span belongs to the trace of the cause. With
// several causes it has a new trace, with links to the causes. Without a cause nothing is recorded.
func StartFrom(ctx context.Context, causes []Cause, kind, what string) (context.Context, Span) {
	r := processRecorder.Load()
	if r == nil {
		return ctx, Span{}
	}
	// Jobs of one request have the same cause: it is linked once.
	var links []otel.Link
	seen := map[otel.SpanID]bool{}
	for _, cause := range causes {
		if cause.context == nil || seen[cause.context.SpanID()] || len(links) == maxLinkedCauses {
			continue
		}
		seen[cause.context.SpanID()] = true
		links = append(links, otel.Link{SpanContext: *cause.context})
	}
	switch len(links) {
	case 0:
		return ctx, Span{}
	case 1:
		return r.begin(otel.ContextWithRemoteSpanContext(ctx, links[0].SpanContext), spanName(kind, what), otel.WithSpanKind(otel.SpanKindConsumer))
	}
	return r.begin(ctx, spanName(kind, what), otel.WithNewRoot(), otel.WithLinks(links...), otel.WithSpanKind(otel.SpanKindConsumer))
}

// begin begins a span with a name, and returns a context that has it.
func (r *Recorder) begin(ctx context.Context, name string, options ...otel.SpanStartOption) (context.Context, Span) {
	ctx, span := r.tracer.Start(ctx, name, options...)
	return ctx, Span{span}
}

// maxSpanNameLength bounds the second part of a span's name, in bytes: a client may have chosen it.
const maxSpanNameLength = 100

// spanName joins the words of a span's name.
func spanName(kind, what string) string {
	if what == "" {
		return kind
	}
	return kind + " " + what[:min(len(what), maxSpanNameLength)]
}

// SetCount records how many items the span is about.
func (s Span) SetCount(n int) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int("tidings.count", n))
	}
}

// Fail records that the work failed with a code.
func (s Span) Fail(code string) {
	if s.span != nil {
		s.span.SetStatus(codes.Error, code)
	}
}

// End ends the span; err is the outcome, of which only the code is recorded.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.Fail(string(services.CodeOf(err)))
	}
	s.span.End()
}
