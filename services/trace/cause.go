package trace

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	otel "go.opentelemetry.io/otel/trace"
)

// Cause names the span that caused work to be done later or elsewhere. The zero value names none.
type Cause struct{ context *otel.SpanContext }

// CauseOf returns the span of ctx as a cause, or no cause if its trace is not recorded.
func CauseOf(ctx context.Context) Cause {
	if processRecorder.Load() == nil {
		return Cause{}
	}
	return causeIfTraceRecorded(ctx)
}

// causeIfTraceRecorded returns the span of ctx if its trace is recorded: links to traces that are not recorded would lead nowhere.
func causeIfTraceRecorded(ctx context.Context) Cause {
	found := otel.SpanContextFromContext(ctx)
	if !found.IsValid() || !found.IsSampled() {
		return Cause{}
	}
	return Cause{&found}
}

// Equal reports whether two causes name the same span. Package cmp, with which tests compare whole jobs, finds this method by
// its name.
func (c Cause) Equal(other Cause) bool { return c.Text() == other.Text() }

// header is the name of the header in the W3C's Trace Context.
const header = "traceparent"

// Text returns the cause in the form of the header traceparent, "" for none. Jobs store it and hints carry it, so the
// format must not change.
func (c Cause) Text() string {
	if c.context == nil {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(otel.ContextWithSpanContext(context.Background(), *c.context), carrier)
	return carrier[header]
}

// ParseCause reads the output of Text. Anything else is no cause.
func ParseCause(text string) Cause {
	if text == "" || processRecorder.Load() == nil {
		return Cause{}
	}
	return causeIfTraceRecorded(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{header: text}))
}
