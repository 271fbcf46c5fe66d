package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"

	"tidings/services"
)

// IsBlank reports whether a line is skipped: it is empty, or a comment.
func IsBlank(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}

// ReadObject parses a line of JSON Lines: one object that has only the given fields. It refuses a line that is too long. It also refuses
// broken UTF-8 and half a character, which the decoder would silently replace.
func (f Form) ReadObject(line []byte, into any, fields string) error {
	if len(line) > f.MaxBytesPerLine {
		return services.Errorf(services.Invalid, "longer than %d bytes", f.MaxBytesPerLine)
	}
	if err := services.CheckUnicode("text", line); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	// A misspelt field would otherwise be dropped in silence, in every line of the file.
	decoder.DisallowUnknownFields()
	noObject := func(because string) error {
		return services.Errorf(services.Invalid, "not one JSON object with %s: %s", fields, because)
	}
	err := decoder.Decode(into)
	wrong, isWrong := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case isWrong && wrong.Field != "":
		return services.Errorf(services.Invalid, "%s: %s is needed, got %s", wrong.Field, neededKindText(wrong.Type), wrongKindText(wrong))
	case isWrong:
		return noObject("it is " + wrongKindText(wrong))
	case err != nil:
		return noObject(strings.TrimPrefix(err.Error(), "json: "))
	case bytes.TrimSpace(line)[0] != '{': // the decoder takes null for an object without fields
		return noObject("it is null")
	}
	if _, err := decoder.Token(); err != io.EOF {
		return noObject("there is more text after it")
	}
	return nil
}

// wrongKindText names in plain words the kind of a wrong value.
func wrongKindText(wrong *json.UnmarshalTypeError) string {
	switch kind, _, _ := strings.Cut(wrong.Value, " "); kind { // for a number, Value has its digits too
	case "object":
		return "an object"
	case "array":
		return "a list"
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	}
	return "a number"
}

// neededKindText names in plain words the kind of value that a field of a row needs.
func neededKindText(field reflect.Type) string {
	switch field.Kind() {
	case reflect.Slice:
		return "a list of texts"
	case reflect.Bool:
		return "true or false"
	}
	return "a text"
}
