package graph

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"tidings/services"
)

// MarshalInt prints an Int.
func MarshalInt(n int) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		var buffer [20]byte
		_, _ = w.Write(strconv.AppendInt(buffer[:0], int64(n), 10))
	})
}

// UnmarshalInt reads an Int: a signed integer of 32 bits. It refuses texts and floats, even if they look like integers. Literals
// come as int64, and variables as json.Number.
func UnmarshalInt(input any) (int, error) {
	switch value := input.(type) {
	case int64:
		if value == int64(int32(value)) {
			return int(value), nil
		}
	case int:
		return UnmarshalInt(int64(value))
	case json.Number:
		if n, err := strconv.ParseInt(string(value), 10, 32); err == nil {
			return int(n), nil
		}
	default:
		return 0, services.Errorf(services.Invalid, "an Int is a whole number from %d to %d, got %s", math.MinInt32, math.MaxInt32, kindOf(input))
	}
	return 0, services.Errorf(services.Invalid, "an Int is a whole number from %d to %d, got %v", math.MinInt32, math.MaxInt32, input)
}

// timeLayout has milliseconds, the precision of all times in answers. With two layouts, one moment would be printed in two
// ways.
const timeLayout = `"2006-01-02T15:04:05.000Z"`

// MarshalTime prints a moment in UTC with milliseconds; the zero time is null.
func MarshalTime(t time.Time) graphql.Marshaler {
	if t.IsZero() {
		return graphql.Null
	}
	return graphql.WriterFunc(func(w io.Writer) {
		var buffer [len(timeLayout)]byte
		_, _ = w.Write(AppendTime(buffer[:0], t))
	})
}

// AppendTime appends the output of MarshalTime. It formats without the fraction and appends the milliseconds itself: the standard
// library formats RFC 3339 without a fraction in an eighth of the time that a layout with a fraction takes. A page has forty moments.
func AppendTime(to []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(to, "null"...)
	}
	to = t.UTC().AppendFormat(append(to, '"'), time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(to[:len(to)-len("Z")], '.', digit(ms/100), digit(ms/10), digit(ms), 'Z', '"')
}

// digit returns the last digit of a number that is not negative.
func digit(n int) byte { return byte('0' + n%10) }

// UnmarshalTime reads RFC 3339.
func UnmarshalTime(input any) (time.Time, error) {
	text, ok := input.(string)
	if !ok {
		return time.Time{}, services.Errorf(services.Invalid, "a Time is a text in RFC 3339, got %s", kindOf(input))
	}
	t, ok := services.ParseTime(text)
	if !ok {
		return time.Time{}, services.Errorf(services.Invalid, "%s is not a time in RFC 3339, or it is the first moment of the year 1, which means no time", services.Quote(text))
	}
	return t, nil
}

// MarshalURL prints a URL as a JSON text.
func MarshalURL(text string) graphql.Marshaler { return graphql.MarshalString(text) }

// UnmarshalURL reads a text. The operation checks that it is a URL, because only the operation can name the field in the error.
func UnmarshalURL(input any) (string, error) { return unmarshalText("a URL", input) }

// MarshalVersion prints a version of badges as a JSON text.
func MarshalVersion(text string) graphql.Marshaler { return graphql.MarshalString(text) }

// UnmarshalVersion reads a text. The subscription checks that it is a version, because only the subscription can name the
// argument in the error.
func UnmarshalVersion(input any) (string, error) { return unmarshalText("a Version", input) }

// unmarshalText reads the text of a scalar. kind names the scalar in the error.
func unmarshalText(kind string, input any) (string, error) {
	text, ok := input.(string)
	if !ok {
		return "", services.Errorf(services.Invalid, "%s is a text, got %s", kind, kindOf(input))
	}
	return text, nil
}

// MarshalJSON prints a text that is a JSON object, without a check: UnmarshalJSON made the text before it was stored.
func MarshalJSON(text string) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) { _, _ = io.WriteString(w, text) })
}

// UnmarshalJSON reads a JSON object and returns it as a text without white space, with sorted keys, and with numbers as they were
// sent. So two spellings of one object count as the same input under an idempotency key.
func UnmarshalJSON(input any) (string, error) {
	if _, ok := input.(map[string]any); !ok {
		return "", services.Errorf(services.Invalid, "a JSON is an object, got %s", kindOf(input))
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(input); err != nil {
		return "", services.Wrapf(services.Invalid, err, "a JSON is an object, which this is not")
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// kindOf is the kind of an input value, for error messages.
func kindOf(input any) string {
	switch input.(type) {
	case string:
		return "a text"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	case nil:
		return "null"
	}
	return "a number"
}
