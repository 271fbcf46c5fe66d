package services

import (
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// WithDefaults returns settings with the value of the tag `default` in each field that is zero or an empty list. The command line takes the
// defaults from the same tags; this is for tests and for programs that embed a package, which set only what they need. A zero that the tag
// `min` allows is a value, such as no limit, and stays. Bounds are not checked here: only the command line refuses what is outside.
func WithDefaults[T any](settings T) T {
	setDefaults(reflect.ValueOf(&settings).Elem())
	return settings
}

// setDefaults sets the fields of a struct, and of the structs in it.
func setDefaults(settings reflect.Value) {
	for field, value := range settings.Fields() {
		if value.Kind() == reflect.Struct {
			setDefaults(value)
			continue
		}
		text, found := field.Tag.Lookup("default")
		empty := value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0
		if !found || !empty || allowsZero(field) {
			continue
		}
		if err := DecodeSetting(text, value); err != nil {
			panic(err) // a test of the command line decodes every default
		}
	}
}

// allowsZero reports whether 0 is the lower bound of a setting.
func allowsZero(field reflect.StructField) bool {
	least, bounded := field.Tag.Lookup("min")
	bound := reflect.New(field.Type).Elem()
	return bounded && DecodeSetting(least, bound) == nil && bound.IsZero()
}

// DecodeSetting sets a field of settings to the value of the text. Lists are separated by commas, and empty items are dropped, so that a
// list can be set to nothing. The field is of one of the types in the switch; the command line reads switches by itself.
func DecodeSetting(text string, field reflect.Value) (err error) {
	switch target := field.Addr().Interface().(type) {
	case *string:
		*target = text
	case *[]string:
		// A default is replaced and not added to.
		*target = nil
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*target = append(*target, item)
			}
		}
	case *int:
		*target, err = strconv.Atoi(text)
	case *int64:
		*target, err = strconv.ParseInt(text, 10, 64)
	case *time.Duration:
		*target, err = time.ParseDuration(text)
	case *slog.Level:
		err = target.UnmarshalText([]byte(text))
	default:
		return fmt.Errorf("no setting is of the type %s", field.Type())
	}
	return err
}
