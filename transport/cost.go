package transport

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
)

// The weights of fields that Config.Weights does not name.
const (
	objectCost   = 2  // an object, whatever is selected of it
	leafCost     = 1  // a scalar or an enum
	assumedItems = 10 // of a list whose length no argument says
	maxItems     = 100
)

// cost is what an operation costs before it is executed: a part that is always the same, and parts that are to be
// multiplied by what a variable says. About a microsecond of the server's time is 1.
type cost struct {
	fixed    int
	multiple []multiple
}

// multiple is a cost for each item of a list.
type multiple struct {
	items amount
	each  cost
}

// amount is the number of items that one argument of a field asks for.
type amount struct {
	value     *ast.Value // nil: otherwise holds
	last      *ast.Value // of a page that can be asked for from its end: the other argument; nil without it
	elements  bool       // as many as the argument has elements, and not as many as it says
	otherwise int
}

// in is the cost with the values of the variables.
func (c cost) in(variables map[string]any) int {
	sum := c.fixed
	for _, part := range c.multiple {
		sum = min(sum+part.items.in(variables)*part.each.in(variables), manyOf)
	}
	return sum
}

func (c *cost) add(other cost) {
	c.fixed = min(c.fixed+other.fixed, manyOf)
	c.multiple = append(c.multiple, other.multiple...)
}

// times is the cost of so many items.
func (c cost) times(items amount) cost {
	if items.last == nil && (items.value == nil || items.value.Kind != ast.Variable && !items.elements) {
		count := items.in(nil)
		if len(c.multiple) == 0 {
			return cost{fixed: min(count*c.fixed, manyOf)}
		}
	}
	return cost{multiple: []multiple{{items, c}}}
}

// in is the number of items, never more than a page has. What is no number is refused where it is read.
func (a amount) in(variables map[string]any) int {
	items := a.of(a.value, variables)
	switch {
	case a.last != nil && a.value == nil:
		items = a.of(a.last, variables)
	case a.last != nil: // which of the two is meant, only the resolver says
		items = max(items, a.of(a.last, variables))
	}
	return items
}

func (a amount) of(value *ast.Value, variables map[string]any) int {
	if value == nil {
		return a.otherwise
	}
	if a.elements {
		return a.count(variables)
	}
	text := value.Raw
	if value.Kind == ast.Variable {
		given := variables[value.Raw] // the variable's own default, where nothing was given
		if given == nil {
			return a.otherwise
		}
		text = fmt.Sprint(given)
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		return a.otherwise
	}
	return max(0, min(number, maxItems))
}

// count is how many elements the argument has; one value stands for a list of it.
func (a amount) count(variables map[string]any) int {
	switch a.value.Kind {
	case ast.Variable:
		switch list := variables[a.value.Raw].(type) {
		case []any:
			return len(list)
		case nil:
			return a.otherwise
		}
		return 1
	case ast.ListValue:
		return len(a.value.Children)
	case ast.NullValue:
		return a.otherwise
	}
	return 1
}

// costs reckons costs. A field costs its weight, and its selections as often as it answers them: a list below a field
// with the argument first as often as that says, a list with a list for an argument once for each element, any other
// list an assumed number of times.
type costs struct {
	weights map[string]int // by Type.field
}

// operation is the cost of one operation of a valid document.
func (c costs) operation(operation *ast.OperationDefinition) cost {
	return c.selections(operation.SelectionSet, nil)
}

// selections is the cost of a selection set. page is how many items the lists in it have; nil where their own arguments
// say it.
func (c costs) selections(set ast.SelectionSet, page *amount) (sum cost) {
	for _, selection := range set {
		switch one := selection.(type) {
		case *ast.Field:
			sum.add(c.field(one, page))
		case *ast.InlineFragment:
			sum.add(c.selections(one.SelectionSet, page))
		case *ast.FragmentSpread:
			if one.Definition != nil {
				sum.add(c.selections(one.Definition.SelectionSet, page))
			}
		}
	}
	return sum
}

func (c costs) field(field *ast.Field, page *amount) cost {
	if field.Definition == nil || field.ObjectDefinition == nil { // validation refuses it
		return cost{fixed: leafCost}
	}
	weight, named := c.weights[field.ObjectDefinition.Name+"."+field.Name]
	if len(field.SelectionSet) == 0 {
		if !named {
			weight = leafCost
		}
		return cost{fixed: weight}
	}
	if !named {
		weight = objectCost
	}
	own := pageOf(field)
	if field.Definition.Type.Elem != nil && own != nil { // a list that says itself how long it is
		items := c.selections(field.SelectionSet, nil)
		items.fixed += weight
		return items.times(*own)
	}
	below := c.selections(field.SelectionSet, own)
	below.fixed += weight
	if field.Definition.Type.Elem == nil {
		return below
	}
	if page != nil {
		return below.times(*page)
	}
	return below.times(elementsOf(field))
}

// pageOf is the number of items that a connection has; nil for a field that is none.
func pageOf(field *ast.Field) *amount {
	definition := field.Definition.Arguments.ForName("first")
	if definition == nil {
		return nil
	}
	page := amount{otherwise: assumedItems}
	if definition.DefaultValue != nil {
		if number, err := strconv.Atoi(definition.DefaultValue.Raw); err == nil {
			page.otherwise = number
		}
	}
	if argument := field.Arguments.ForName("first"); argument != nil && argument.Value.Kind != ast.NullValue {
		page.value = argument.Value
	}
	if argument := field.Arguments.ForName("last"); argument != nil && argument.Value.Kind != ast.NullValue {
		page.last = argument.Value
	}
	return &page
}

// elementsOf is the number of items of a list that is no connection's.
func elementsOf(field *ast.Field) amount {
	for _, argument := range field.Arguments {
		definition := field.Definition.Arguments.ForName(argument.Name)
		if definition != nil && definition.Type.Elem != nil {
			return amount{value: argument.Value, elements: true, otherwise: assumedItems}
		}
	}
	if strings.HasPrefix(field.ObjectDefinition.Name, "__") {
		return amount{otherwise: 1} // what describes the schema has its own bounds
	}
	return amount{otherwise: assumedItems}
}
