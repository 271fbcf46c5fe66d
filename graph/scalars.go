package graph

import (
	"io"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"tidings/services"
)

const timeLayout = `"2006-01-02T15:04:05.000Z"`

// MarshalTime prints a moment in UTC with milliseconds; the zero time is null.
func MarshalTime(t time.Time) graphql.Marshaler {
	if t.IsZero() {
		return graphql.Null
	}
	return graphql.WriterFunc(func(w io.Writer) {
		var buffer [len(timeLayout)]byte
		_, _ = w.Write(t.UTC().AppendFormat(buffer[:0], timeLayout))
	})
}

// UnmarshalTime reads RFC 3339.
func UnmarshalTime(input any) (time.Time, error) {
	text, ok := input.(string)
	if !ok {
		return time.Time{}, services.Errorf(services.Invalid, "a time is a string in RFC 3339, got %T", input)
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, services.Errorf(services.Invalid, "%s is not a time in RFC 3339", services.Quote(text))
	}
	return t, nil
}
