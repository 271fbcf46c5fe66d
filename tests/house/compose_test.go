package house

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// composeSchema is the JSON Schema of Docker Compose files: testdata/compose-spec.json, the schema of compose-go v2.16.2 without the
// descriptions. This file implements only the keywords of JSON Schema that this schema uses. Any other keyword is reported as a fault.
type composeSchema map[string]any

// uncheckedKeywords are the keywords of JSON Schema that say nothing about the value.
var uncheckedKeywords = []string{"$schema", "$id", "$defs"}

// checkValue compares a value with a schema. It returns the names of the value's properties that the schema mentions, and the faults.
func (s composeSchema) checkValue(schema any, value any, at string) (mentioned map[string]bool, faults []string) {
	if allowed, ok := schema.(bool); ok {
		if !allowed {
			faults = append(faults, at+" is not allowed")
		}
		return nil, faults
	}
	c := &schemaCheck{s, schema.(map[string]any), value, at, map[string]bool{}, nil}
	for _, keyword := range slices.Sorted(maps.Keys(c.schema)) {
		c.checkKeyword(keyword, c.schema[keyword])
	}
	if object, ok := value.(map[string]any); ok {
		for _, keyword := range []string{"additionalProperties", "unevaluatedProperties"} { // after all keywords that mention properties
			if rest, has := c.schema[keyword]; has {
				for name, part := range object {
					if !c.mentionedProperties[name] {
						c.checkNestedValue(rest, part, at+"."+name)
					}
				}
			}
		}
	}
	return c.mentionedProperties, c.faults
}

// schemaCheck is the check of one value against one schema.
type schemaCheck struct {
	rootSchema          composeSchema   // the whole schema, to which "$ref" refers
	schema              map[string]any  // the part of it that describes the value
	value               any             // decoded JSON
	valuePath           string          // where the value stands in the file, such as ".services.node-1", for messages
	mentionedProperties map[string]bool // the properties of the value that the schema mentions
	faults              []string        // how the value breaks the schema: a message for each fault
}

func (c *schemaCheck) addFault(format string, arguments ...any) {
	c.faults = append(c.faults, c.valuePath+": "+fmt.Sprintf(format, arguments...))
}

// checkNestedValue checks a part of the value against a schema.
func (c *schemaCheck) checkNestedValue(schema, value any, at string) {
	_, faults := c.rootSchema.checkValue(schema, value, at)
	c.faults = append(c.faults, faults...)
}

// checkSubschema checks the same value against another schema.
func (c *schemaCheck) checkSubschema(schema any) {
	mentioned, faults := c.rootSchema.checkValue(schema, c.value, c.valuePath)
	maps.Copy(c.mentionedProperties, mentioned)
	c.faults = append(c.faults, faults...)
}

// checkKeyword checks the value against one keyword of the schema, such as "required", with what the schema gives for this keyword.
func (c *schemaCheck) checkKeyword(keyword string, with any) {
	object, _ := c.value.(map[string]any)
	list, _ := c.value.([]any)
	text, isText := c.value.(string)
	number, isNumber := c.value.(float64)
	switch keyword {
	case "$ref":
		c.checkSubschema(c.rootSchema["$defs"].(map[string]any)[strings.TrimPrefix(with.(string), "#/$defs/")])
	case "type":
		c.checkTypes(with)
	case "properties", "patternProperties":
		c.checkProperties(keyword, with.(map[string]any))
	case "required":
		for _, name := range with.([]any) {
			if _, has := object[name.(string)]; object != nil && !has {
				c.addFault("%s is missing", name)
			}
		}
	case "items":
		for i, one := range list {
			c.checkNestedValue(with, one, fmt.Sprintf("%s[%d]", c.valuePath, i))
		}
	case "allOf":
		for _, one := range with.([]any) {
			c.checkSubschema(one)
		}
	case "oneOf", "anyOf":
		c.checkAnyOfOrOneOf(keyword, with.([]any))
	case "enum":
		if !slices.Contains(with.([]any), c.value) {
			c.addFault("%v is none of %v", c.value, with)
		}
	case "pattern":
		if isText && !regexp.MustCompile(with.(string)).MatchString(text) {
			c.addFault("%q does not match %s", text, with)
		}
	case "minimum", "maximum":
		if bound := with.(float64); isNumber && (keyword == "minimum" && number < bound || keyword == "maximum" && number > bound) {
			c.addFault("%v is beyond its %s, %v", number, keyword, bound)
		}
	case "uniqueItems":
		for i, one := range list {
			if text, ok := one.(string); ok && slices.Contains(list[:i], any(text)) {
				c.addFault("%s stands there twice", text)
			}
		}
	case "additionalProperties", "unevaluatedProperties":
	default:
		if !slices.Contains(uncheckedKeywords, keyword) {
			c.addFault("this test does not know the keyword %s", keyword)
		}
	}
}

// checkProperties checks the properties of an object against the keyword "properties" or "patternProperties".
func (c *schemaCheck) checkProperties(keyword string, with map[string]any) {
	object, _ := c.value.(map[string]any)
	for name, part := range object {
		for of, schema := range with {
			if keyword == "properties" && of == name || keyword == "patternProperties" && regexp.MustCompile(of).MatchString(name) {
				c.mentionedProperties[name] = true
				c.checkNestedValue(schema, part, c.valuePath+"."+name)
			}
		}
	}
}

// checkTypes checks the type of the value against the allowed types.
func (c *schemaCheck) checkTypes(with any) {
	allowed, several := with.([]any)
	if !several {
		allowed = []any{with}
	}
	kinds := map[string][]any{
		"string": {"string"}, "bool": {"boolean"}, "float64": {"number", "integer"}, "<nil>": {"null"},
		"[]interface {}": {"array"}, "map[string]interface {}": {"object"},
	}[fmt.Sprintf("%T", c.value)]
	if !slices.ContainsFunc(kinds, func(kind any) bool { return slices.Contains(allowed, kind) }) {
		c.addFault("%v is not of the type %v", c.value, with)
	}
}

// checkAnyOfOrOneOf checks that the value fits one of the schemas, and with the keyword "oneOf" only one.
func (c *schemaCheck) checkAnyOfOrOneOf(keyword string, choices []any) {
	fitting, all := 0, []string{}
	for _, one := range choices {
		mentioned, faults := c.rootSchema.checkValue(one, c.value, c.valuePath)
		if len(faults) == 0 {
			fitting++
			maps.Copy(c.mentionedProperties, mentioned)
		}
		all = append(all, faults...)
	}
	if fitting == 0 || keyword == "oneOf" && fitting > 1 {
		c.addFault("%d of the %d forms fit: %s", fitting, len(choices), strings.Join(all, "; "))
	}
}

// composeFaults checks a text as a compose file, against the schema and for names of services and volumes that the file lacks. It returns
// the faults.
func composeFaults(t *testing.T, text string) []string {
	t.Helper()
	var s composeSchema
	if err := json.Unmarshal([]byte(readRepositoryFile(t, "tests/house/testdata/compose-spec.json")), &s); err != nil {
		t.Fatal(err)
	}
	var content, plain any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	bytes, err := json.Marshal(content)
	if err == nil {
		err = json.Unmarshal(bytes, &plain)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, faults := s.checkValue(map[string]any(s), plain, "")
	file := plain.(map[string]any)
	services, _ := file["services"].(map[string]any)
	for name, service := range services {
		waits, _ := service.(map[string]any)["depends_on"].(map[string]any)
		for other, condition := range waits {
			on, _ := services[other].(map[string]any)
			if on == nil {
				faults = append(faults, fmt.Sprintf("%s waits for %s, which there is not", name, other))
			} else if condition.(map[string]any)["condition"] == "service_healthy" && on["healthcheck"] == nil {
				faults = append(faults, fmt.Sprintf("%s waits for the health of %s, which nothing checks", name, other))
			}
		}
		plainly, _ := service.(map[string]any)["depends_on"].([]any)
		for _, other := range plainly {
			if services[other.(string)] == nil {
				faults = append(faults, fmt.Sprintf("%s waits for %s, which there is not", name, other))
			}
		}
		mounts, _ := service.(map[string]any)["volumes"].([]any)
		for _, mount := range mounts {
			volume, _, _ := strings.Cut(mount.(string), ":")
			named, _ := file["volumes"].(map[string]any)
			if _, known := named[volume]; !known && !strings.HasPrefix(volume, "./") {
				faults = append(faults, fmt.Sprintf("%s mounts %s, which there is not", name, volume))
			}
		}
	}
	return faults
}

// The compose file follows the Compose Specification, and its services only wait for services and mount volumes that exist.
func TestTheCompositionFollowsItsSpecification(t *testing.T) {
	text := deployFiles(t)["compose/compose.yaml"]
	if faults := composeFaults(t, text); len(faults) > 0 {
		t.Errorf("the faults are %q", faults)
	}
	for injected, change := range map[string][2]string{
		"a misspelled key":     {"restart: unless-stopped", "restrat: unless-stopped"},
		"a wrong type":         {"retries: 60", "retries: [60]"},
		"an unknown condition": {"condition: service_healthy", "condition: service_happy"},
		"a missing service":    {"postgres: {condition", "postgers: {condition"},
		"one more of these":    {"depends_on: [node-1, node-2]", "depends_on: [node-1, node-3]"},
		"no health check":      {"      test: [\"CMD-SHELL\", \"pg_isready -U tidings\"]\n", "      disable: 3\n"},
		"an unknown volume":    {"postgres:/var", "posgres:/var"},
		"a wrong subnet":       {"subnet:", "subnets:"},
	} {
		wrong := strings.Replace(text, change[0], change[1], 1)
		if wrong == text {
			t.Errorf("%s: %q is not in the file", injected, change[0])
			continue
		}
		if len(composeFaults(t, wrong)) == 0 {
			t.Errorf("%s is not found", injected)
		}
	}
}
