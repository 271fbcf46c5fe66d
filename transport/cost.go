package transport

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
)

// The weights of fields that Config.Weights does not name, and the numbers of items.
const (
	objectCost   = 2   // an object, whatever its selection
	leafCost     = 1   // a scalar or an enum
	assumedItems = 10  // items of a list without an argument for its length
	maxItems     = 100 // items of a page, except the pages in Config.MaxPageSizes
)

// cost is the cost of an operation before it is executed: a fixed part, and parts that are multiplied by the values of variables.
// One unit is about a microsecond of the server's time. The cost is computed once for a document. For each request, cost.forVariables applies
// the variables, and does not walk the document again. All sums stop at maxCount, so that none overflows.
type cost struct {
	fixed       int       // the part that depends on no variable
	perItem     []perItem // the parts that depend on variables
	followsPage bool      // it contains a list of the items of the page around it
	readsPage   bool      // it contains a page: in a list, a page is read for each item
}

// perItem is a cost for each item of a list. For a nested list, each contains the perItem of the inner list.
//
// If the number of items is a literal or a default, and the cost of each item is fixed, no perItem is needed: times then returns a
// fixed cost.
type perItem struct {
	items amount // how many items
	each  cost   // of one item
}

// amount is the number of items that one argument of a field asks for. The zero value is an empty list.
type amount struct {
	value         *ast.Value // the argument that asks for items; nil: it is absent, and ifAbsent applies
	last          *ast.Value // the argument last, by which a list is paged from its end; nil: it is absent
	isList        bool       // the number is the length of a list; false: it is the value of the argument
	key           string     // if isList: the list is in this field of the argument; "": the argument itself is the list
	emptyIsAbsent bool       // the list has the IDs that a mutation marks: an empty list counts as absent
	// ifAbsent is the number if the argument is absent or null: its default in the schema, or the number of a list without one.
	ifAbsent int
	most     int // the greatest value, or length, of the argument; 0: maxItems for a value, and no bound for a length
}

// forVariables returns the cost for given values of the variables, at most maxCount.
func (c cost) forVariables(variables map[string]any) int {
	sum := c.fixed
	for _, part := range c.perItem {
		sum = min(sum+part.items.forVariables(variables)*part.each.forVariables(variables), maxCount)
	}
	return sum
}

// add adds the cost of a sibling.
func (c *cost) add(other cost) {
	c.fixed = min(c.fixed+other.fixed, maxCount)
	c.perItem = append(c.perItem, other.perItem...)
	c.followsPage, c.readsPage = c.followsPage || other.followsPage, c.readsPage || other.readsPage
}

// times returns the cost of a list of items with this cost each. A literal or default number and a fixed cost are multiplied at
// once.
func (c cost) times(items amount) cost {
	if items.last == nil && (items.value == nil || items.value.Kind != ast.Variable && !items.isList) {
		count := items.forVariables(nil)
		if len(c.perItem) == 0 {
			return cost{fixed: min(count*c.fixed, maxCount), readsPage: c.readsPage}
		}
	}
	return cost{perItem: []perItem{{items, c}}, readsPage: c.readsPage}
}

// forVariables returns the number of items for given variables: the size of a page, up to the largest size, or the length of a list argument.
// A value that is not a number counts as absent, and a negative number as 0: the request is refused when the value is read.
func (a amount) forVariables(variables map[string]any) int {
	items := a.itemsOf(a.value, variables)
	switch {
	case a.last != nil && a.value == nil:
		items = a.itemsOf(a.last, variables)
	case a.last != nil: // only the resolver knows whether first or last applies
		items = max(items, a.itemsOf(a.last, variables))
	}
	return items
}

// itemsOf returns the number of items that one argument asks for.
func (a amount) itemsOf(value *ast.Value, variables map[string]any) int {
	if value == nil {
		return a.ifAbsent
	}
	if a.isList {
		count := a.listLength(variables)
		if count == 0 && a.emptyIsAbsent {
			return a.ifAbsent
		}
		if a.most == 0 || count < a.most {
			return count
		}
		return a.most
	}
	// A literal's text, or the name of a variable.
	text := value.Raw
	if value.Kind == ast.Variable {
		given := variables[value.Raw] // contains the variable's default if the client sent none
		if given == nil {
			return a.ifAbsent
		}
		text = fmt.Sprint(given)
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		return a.ifAbsent
	}
	// The resolver refuses a larger page or shortens it to the largest size, so it costs no more than that.
	most := a.most
	if most == 0 {
		most = maxItems
	}
	return max(0, min(number, most))
}

// listLength returns the length of the list argument. A single value counts as a list of one.
func (a amount) listLength(variables map[string]any) int {
	switch a.value.Kind {
	case ast.Variable:
		given := variables[a.value.Raw]
		if a.key != "" {
			input, _ := given.(map[string]any)
			given = input[a.key]
		}
		switch list := given.(type) {
		case []any:
			return len(list)
		case nil:
			return a.ifAbsent
		}
		return 1
	case ast.ListValue:
		return len(a.value.Children)
	case ast.NullValue:
		return a.ifAbsent
	}
	return 1
}

// costModel computes costs. A field costs its weight plus its selections times its number of items. For a list below a field with the
// argument first, that number is the value of first or of last. For a list with a list as argument, it is the length of the argument.
// For a list in the payload of a mutation of some IDs, it is the number of these IDs, but at most the assumed number unless there is a
// page below the list. For any other list, it is an assumed number.
//
// The objects of a list are read together, so the assumed number is small. But if there is a page below a list, the page is read once
// for each item of the list: then the list is assumed to be as long as it can be. A page is read even if a client selects no item of
// it, so each item then costs as much as a leaf. The costs follow from the document and its variables and not from the database, so
// that a client can compute them. A list with few rows is not cheaper.
type costModel struct {
	weights      map[string]int // by Type.field
	maxPageSizes map[string]int // the greatest values of first, by Type.field, where it is not maxItems
	listLengths  map[string]int // the most items of lists whose arguments do not say how many, by Type.field
}

// operation is the cost of one operation of a valid document. A field that a directive skips costs the same as any other.
func (c costModel) operation(operation *ast.OperationDefinition) cost {
	return c.selections(operation.SelectionSet, nil, nil)
}

// selections is the cost of a selection set. of is the field around it; nil for an operation. page is the number of items in its lists;
// nil if their own arguments determine it.
func (c costModel) selections(set ast.SelectionSet, of *ast.Field, page *amount) (sum cost) {
	for _, selection := range set {
		switch one := selection.(type) {
		case *ast.Field:
			sum.add(c.field(one, of, page))
		case *ast.InlineFragment:
			sum.add(c.selections(one.SelectionSet, of, page))
		// A fragment is walked at each spread. This walk is bounded, because Shape has bounded the number of fields after expansion.
		case *ast.FragmentSpread:
			if one.Definition != nil {
				sum.add(c.selections(one.Definition.SelectionSet, of, page))
			}
		}
	}
	return sum
}

// field is the cost of one field with its selections. of is the field around it; nil for a root field. page is the number of items of
// the connection around it; nil without one.
func (c costModel) field(field, of *ast.Field, page *amount) cost {
	if field.Definition == nil || field.ObjectDefinition == nil { // validation refuses it
		return cost{fixed: leafCost}
	}
	// The type that declares the field determines the weight: an interface and its types may have different weights.
	weight, named := c.weights[field.ObjectDefinition.Name+"."+field.Name]
	// A leaf costs its own weight, however large its value.
	if len(field.SelectionSet) == 0 {
		if !named {
			weight = leafCost
		}
		return cost{fixed: weight}
	}
	if !named {
		weight = objectCost
	}
	// The number of items of a connection does not multiply the connection itself, but the list of edges or nodes below it.
	own := pageSizeOf(field)
	if own != nil {
		own.most = c.maxPageSizes[field.ObjectDefinition.Name+"."+field.Name]
	}
	if own == nil && strings.HasSuffix(field.Definition.Type.Name(), "Connection") {
		own = page // in a subscription to a list, the field around the connection has the argument first
	}
	if field.Definition.Type.Elem != nil && own != nil { // a list whose own argument gives its length
		// A list below has its own number of items. The number of this list multiplies the cost of the lists below.
		items := c.selections(field.SelectionSet, field, nil)
		items.fixed += weight
		items.readsPage = true
		return items.times(*own)
	}
	// Any other object hands its own page, if it has one, down to the lists below it.
	below := c.selections(field.SelectionSet, field, own)
	below.fixed += weight
	if own != nil && own != page {
		if !below.followsPage {
			below.add(cost{fixed: leafCost}.times(*own))
		}
		below.followsPage, below.readsPage = false, true // followsPage was about this page, and not about a page around it
	}
	if field.Definition.Type.Elem == nil {
		return below
	}
	// A list within a connection has as many items as the connection's page.
	if page != nil {
		list := below.times(*page)
		list.followsPage = true
		return list
	}
	return below.times(c.elementsOf(field, of, below.readsPage))
}

// pageSizeOf returns the number of items of a connection: the value of its argument first, or of last if the connection is paged from
// its end. The result is nil for a field without the argument first.
func pageSizeOf(field *ast.Field) *amount {
	definition := field.Definition.Arguments.ForName("first")
	if definition == nil {
		return nil
	}
	page := amount{ifAbsent: assumedItems}
	// Validation has checked that the default is a number.
	if definition.DefaultValue != nil {
		if number, err := strconv.Atoi(definition.DefaultValue.Raw); err == nil {
			page.ifAbsent = number
		}
	}
	// A null argument counts as absent, as in the resolvers.
	if argument := field.Arguments.ForName("first"); argument != nil && argument.Value.Kind != ast.NullValue {
		page.value = argument.Value
	}
	if argument := field.Arguments.ForName("last"); argument != nil && argument.Value.Kind != ast.NullValue {
		page.last = argument.Value
	}
	return &page
}

// elementsOf returns the number of items of a list that is not in a connection. If an argument is a list of keys or IDs, the answer has
// one item for each of them. It is the same for the ids in the input of the mutation around the list, but they count at most as the
// assumed number unless all is true. If all is true, a list of unknown length counts as long as it can be, and not as long as assumed.
func (c costModel) elementsOf(field, of *ast.Field, all bool) amount {
	for _, argument := range field.Arguments {
		definition := field.Definition.Arguments.ForName(argument.Name)
		if definition != nil && definition.Type.Elem != nil {
			return amount{value: argument.Value, isList: true, ifAbsent: assumedItems}
		}
	}
	if strings.HasPrefix(field.ObjectDefinition.Name, "__") {
		return amount{ifAbsent: 1} // introspection has its own bounds
	}
	most, known := c.listLengths[field.ObjectDefinition.Name+"."+field.Name]
	if !known {
		return amount{ifAbsent: assumedItems}
	}
	items := amount{ifAbsent: most}
	if !all {
		items.ifAbsent = min(most, assumedItems)
		items.most = items.ifAbsent
	}
	items.value, items.key = idsOf(of)
	items.isList, items.emptyIsAbsent = items.value != nil, true
	return items
}

// idsOf finds the list ids in the argument input of a field; nil without one. If the input is a variable, value is the variable, and
// key is the name of the list in it. If the input is a literal, value is the list itself.
func idsOf(field *ast.Field) (value *ast.Value, key string) {
	const name = "ids"
	if field == nil {
		return nil, ""
	}
	input := field.Arguments.ForName("input")
	switch {
	case input == nil || input.Value.Definition == nil || input.Value.Definition.Fields.ForName(name) == nil:
		return nil, ""
	case input.Value.Kind == ast.Variable:
		return input.Value, name
	}
	return input.Value.Children.ForName(name), ""
}
