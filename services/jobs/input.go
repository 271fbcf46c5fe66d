package jobs

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// inputHashVersion is the first byte of an input hash. The previous release had none, and hashed a text that each mutation
// defined.
const inputHashVersion = 2

// requestHashes returns the part of rememberedRequest that is known before the answer: the hashes of the request and, with
// SentInput, its subject.
func (c *Command) requestHashes() (asks rememberedRequest, err error) {
	if asks.InputHash, err = inputHash(c.Name, c.Input); err != nil || c.SentInput == nil {
		return asks, err
	}
	asks.Subject = c.Subject
	asks.SentInputHash, err = inputHash(c.Name, c.SentInput)
	return asks, err
}

// sameRequest reports whether two requests under one key are the same: whether they have an input in common. A request may have two
// inputs, one with the IDs of objects and one with their refs, as it was sent. If a ref named nothing, the request has only the
// second.
func (r rememberedRequest) sameRequest(other rememberedRequest) bool {
	for _, one := range [][]byte{r.InputHash, r.SentInputHash} {
		if len(one) > 0 && (bytes.Equal(one, other.InputHash) || bytes.Equal(one, other.SentInputHash)) {
			return true
		}
	}
	return false
}

// inputHash distinguishes requests under one idempotency key: the version, then the hash of a command's name and canonical input. A
// mutation and an event of ingest with the same name and input are one request.
func inputHash(name string, input any) ([]byte, error) {
	if input == nil {
		return nil, fmt.Errorf("jobs: %s has an idempotency key and no input", name)
	}
	request, err := appendCanonical(append([]byte(name), 0), reflect.ValueOf(input))
	if err != nil {
		return nil, fmt.Errorf("jobs: the input of %s: %w", name, err)
	}
	hash := sha256.Sum256(request)
	return append([]byte{inputHashVersion}, hash[:]...), nil
}

// appendCanonical prints an input in canonical form: similar to JSON, with the fields sorted by their Go names, leaving out fields
// that are nil, that are absent, or that are empty lists. Lists are sorted too and name each element once, because every list in an
// input is a set: a client may rebuild it in another order when it repeats the request.
func appendCanonical(to []byte, value reflect.Value) ([]byte, error) {
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		return appendCanonical(to, value.Elem())
	case reflect.Invalid: // a nil
		return append(to, "null"...), nil
	case reflect.String:
		return strconv.AppendQuote(to, value.String()), nil
	case reflect.Bool:
		return strconv.AppendBool(to, value.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(to, value.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(to, value.Uint(), 10), nil
	case reflect.Slice:
		return appendSet(to, value)
	case reflect.Struct:
		if at, ok := value.Interface().(time.Time); ok {
			return at.UTC().AppendFormat(to, `"`+time.RFC3339Nano+`"`), nil
		}
		return appendStruct(to, value)
	}
	return nil, fmt.Errorf("values of the type %s cannot be hashed", value.Type())
}

// appendStruct prints the fields that are set. A field that a new release adds, and that a client does not send, leaves the hash
// unchanged.
func appendStruct(to []byte, value reflect.Value) (_ []byte, err error) {
	to = append(to, '{')
	for _, field := range sortedFields(value.Type()) {
		part := value.Field(field.position)
		switch part.Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Slice:
			if part.IsNil() || part.Kind() == reflect.Slice && part.Len() == 0 {
				continue
			}
		case reflect.Struct:
			if omittable, is := part.Interface().(interface{ IsSet() bool }); is {
				if !omittable.IsSet() {
					continue
				}
				part = part.MethodByName("Value").Call(nil)[0] // null means something else than absence
			}
		}
		to = append(strconv.AppendQuote(to, field.name), ':')
		if to, err = appendCanonical(to, part); err != nil {
			return nil, err
		}
		to = append(to, ',')
	}
	return append(to, '}'), nil
}

// appendSet prints a list as a set. Only an Omittable field can have a nil list, and there null is another request
// than an empty list.
func appendSet(to []byte, list reflect.Value) ([]byte, error) {
	if list.IsNil() {
		return append(to, "null"...), nil
	}
	elements := make([]string, list.Len())
	for i := range elements {
		element, err := appendCanonical(nil, list.Index(i))
		if err != nil {
			return nil, err
		}
		elements[i] = string(element)
	}
	slices.Sort(elements)
	to = append(to, '[')
	for _, element := range slices.Compact(elements) {
		to = append(append(to, element...), ',')
	}
	return append(to, ']'), nil
}

// inputField is a field of a struct and its index there.
type inputField struct {
	name     string
	position int
}

// fieldsByType caches the sorted fields of inputs, by their reflect.Type.
var fieldsByType sync.Map

// sortedFields are the fields of a type in the order of their names: a field may move in its struct without changing a
// hash.
func sortedFields(of reflect.Type) []inputField {
	if known, ok := fieldsByType.Load(of); ok {
		return known.([]inputField)
	}
	fields := make([]inputField, of.NumField())
	for i := range fields {
		fields[i] = inputField{of.Field(i).Name, i}
	}
	slices.SortFunc(fields, func(a, b inputField) int { return strings.Compare(a.name, b.name) })
	fieldsByType.Store(of, fields)
	return fields
}

// matchesPreviousReleaseRequest reports whether a stored answer of the previous release, which hashed requests differently, can
// belong to this command. It compares the types of the IDs that the stored answer and this command made, and otherwise trusts the
// key, for the 24 hours that keys are remembered: with a CONFLICT instead, a client that repeats a request across an upgrade would
// believe that it was refused.
func (c *Command) matchesPreviousReleaseRequest(had rememberedRequest) bool {
	if len(had.InputHash) != sha256.Size {
		return false
	}
	made := ""
	if len(had.IDs) > 0 {
		made, _, _ = strings.Cut(had.IDs[0], ":")
		if made == had.IDs[0] { // not a global id
			made = ""
		}
	}
	return had.Refusal != nil || made == c.CreatedType
}
