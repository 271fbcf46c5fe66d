package transport

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
)

// The costs of fields that Config.FieldWeights does not name, and the numbers of items that lists and pages are counted with.
const (
	objectCost       = 2   // an object, whatever its selection
	leafCost         = 1   // a scalar or an enum
	assumedListItems = 10  // items of a list without an argument for its length
	maxPageItems     = 100 // items of a page, except the pages in Config.MaxPageSizes
)

// cost is the cost of an operation before it is executed: a fixed part, and parts that are multiplied by the values of variables.
// One unit is about a microsecond of the server's time. The cost is computed once for a document. For each request,
// cost.forVariables applies the variables, and does not walk the document again. All sums stop at countCeiling, so that none
// overflows.
type cost struct {
	fixed             int       // the part that depends on no variable
	perItem           []perItem // the parts that depend on variables
	containsPageItems bool      // it contains a list of the items of the page around it
	containsPage      bool      // it contains a page: in a list, a page is read for each item
}

// perItem is a cost for each item of a list. For a nested list, each contains the perItem of the inner list.
//
// If the number of items is a literal or a default, and the cost of each item is fixed, no perItem is needed: times then returns a
// fixed cost.
type perItem struct {
	items itemCount // how many items
	each  cost      // of one item
}

// itemCount is the number of items that one argument of a field asks for. The zero value is an empty list.
type itemCount struct {
	argument      *ast.Value // the argument that asks for items; nil: it is absent, and countIfAbsent applies
	lastArgument  *ast.Value // the argument last, by which a list is paged from its end; nil: it is absent
	isList        bool       // the number is the length of a list; false: it is the value of the argument
	listKey       string     // if isList: the list is in this field of the argument; "": the argument itself is the list
	emptyIsAbsent bool       // the list has the IDs that a mutation marks: an empty list counts as absent
	// countIfAbsent is the number if the argument is absent or null: its default in the schema, or the number of a list without one.
	countIfAbsent int
	upperBound    int // the greatest value, or length, of the argument; 0: maxPageItems for a value, and no bound for a length
}

// forVariables returns the cost for given values of the variables, at most countCeiling.
func (c cost) forVariables(variables map[string]any) int {
	sum := c.fixed
	for _, part := range c.perItem {
		sum = min(sum+part.items.forVariables(variables)*part.each.forVariables(variables), countCeiling)
	}
	return sum
}

// add adds another cost, such as that of the next field of the same selection set.
func (c *cost) add(other cost) {
	c.fixed = min(c.fixed+other.fixed, countCeiling)
	c.perItem = append(c.perItem, other.perItem...)
	c.containsPageItems, c.containsPage = c.containsPageItems || other.containsPageItems, c.containsPage || other.containsPage
}

// times returns the cost of a list of items with this cost each. A literal or default number and a fixed cost are multiplied at
// once.
func (c cost) times(items itemCount) cost {
	if items.lastArgument == nil && (items.argument == nil || items.argument.Kind != ast.Variable && !items.isList) {
		count := items.forVariables(nil)
		if len(c.perItem) == 0 {
			return cost{fixed: min(count*c.fixed, countCeiling), containsPage: c.containsPage}
		}
	}
	return cost{perItem: []perItem{{items, c}}, containsPage: c.containsPage}
}

// forVariables returns the number of items for given variables: the size of a page, up to the largest size, or the length of a list
// argument. A value that is not a number counts as absent, and a negative number as 0: the request is refused when the value is
// read.
func (a itemCount) forVariables(variables map[string]any) int {
	items := a.itemsOf(a.argument, variables)
	switch {
	case a.lastArgument != nil && a.argument == nil:
		items = a.itemsOf(a.lastArgument, variables)
	case a.lastArgument != nil: // only the resolver knows whether first or last applies
		items = max(items, a.itemsOf(a.lastArgument, variables))
	}
	return items
}

// itemsOf returns the number of items that one argument asks for.
func (a itemCount) itemsOf(value *ast.Value, variables map[string]any) int {
	if value == nil {
		return a.countIfAbsent
	}
	if a.isList {
		count := a.listLength(variables)
		if count == 0 && a.emptyIsAbsent {
			return a.countIfAbsent
		}
		if a.upperBound == 0 || count < a.upperBound {
			return count
		}
		return a.upperBound
	}
	// A literal's text, or the name of a variable.
	text := value.Raw
	if value.Kind == ast.Variable {
		given := variables[value.Raw] // contains the variable's default if the client sent none
		if given == nil {
			return a.countIfAbsent
		}
		text = fmt.Sprint(given)
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		return a.countIfAbsent
	}
	// The resolver refuses a larger page or shortens it to the largest size, so it costs no more than that.
	most := a.upperBound
	if most == 0 {
		most = maxPageItems
	}
	return max(0, min(number, most))
}

// listLength returns the length of the list argument. A single value counts as a list of one.
func (a itemCount) listLength(variables map[string]any) int {
	switch a.argument.Kind {
	case ast.Variable:
		given := variables[a.argument.Raw]
		if a.listKey != "" {
			input, _ := given.(map[string]any)
			given = input[a.listKey]
		}
		switch list := given.(type) {
		case []any:
			return len(list)
		case nil:
			return a.countIfAbsent
		}
		return 1
	case ast.ListValue:
		return len(a.argument.Children)
	case ast.NullValue:
		return a.countIfAbsent
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
	weights        map[string]int // by Type.field
	maxPageSizes   map[string]int // the greatest values of first, by Type.field, where it is not maxPageItems
	maxListLengths map[string]int // the most items of lists whose arguments do not say how many, by Type.field
}

// operation is the cost of one operation of a valid document. A field that a directive skips costs the same as any other.
func (c costModel) operation(operation *ast.OperationDefinition) cost {
	return c.selections(operation.SelectionSet, nil, nil)
}

// selections is the cost of a selection set. of is the field around it; nil for an operation. page is the number of items in its
// lists; nil if their own arguments determine it.
func (c costModel) selections(set ast.SelectionSet, of *ast.Field, page *itemCount) (sum cost) {
	for _, selection := range set {
		switch one := selection.(type) {
		case *ast.Field:
			sum.add(c.field(one, of, page))
		case *ast.InlineFragment:
			sum.add(c.selections(one.SelectionSet, of, page))
		// A fragment is walked at each spread. This walk is bounded, because DocumentLimits has bounded the number of fields after
		// expansion.
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
func (c costModel) field(field, of *ast.Field, page *itemCount) cost {
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
		own.upperBound = c.maxPageSizes[field.ObjectDefinition.Name+"."+field.Name]
	}
	if own == nil && strings.HasSuffix(field.Definition.Type.Name(), "Connection") {
		own = page // in a subscription to a list, the field around the connection has the argument first
	}
	if field.Definition.Type.Elem != nil && own != nil { // a list whose own argument gives its length
		// A list below has its own number of items. The number of this list multiplies the cost of the lists below.
		items := c.selections(field.SelectionSet, field, nil)
		items.fixed += weight
		items.containsPage = true
		return items.times(*own)
	}
	// Any other object hands its own page, if it has one, down to the lists below it.
	below := c.selections(field.SelectionSet, field, own)
	below.fixed += weight
	if own != nil && own != page {
		if !below.containsPageItems {
			below.add(cost{fixed: leafCost}.times(*own))
		}
		below.containsPageItems, below.containsPage = false, true // containsPageItems was about this page, and not about a page around it
	}
	if field.Definition.Type.Elem == nil {
		return below
	}
	// A list within a connection has as many items as the connection's page.
	if page != nil {
		list := below.times(*page)
		list.containsPageItems = true
		return list
	}
	return below.times(c.elementsOf(field, of, below.containsPage))
}

// pageSizeOf returns the number of items of a connection: the value of its argument first, or of last if the connection is paged from
// its end. The result is nil for a field without the argument first.
func pageSizeOf(field *ast.Field) *itemCount {
	definition := field.Definition.Arguments.ForName("first")
	if definition == nil {
		return nil
	}
	page := itemCount{countIfAbsent: assumedListItems}
	// Validation has checked that the default is a number.
	if definition.DefaultValue != nil {
		if number, err := strconv.Atoi(definition.DefaultValue.Raw); err == nil {
			page.countIfAbsent = number
		}
	}
	// A null argument counts as absent, as in the resolvers.
	if argument := field.Arguments.ForName("first"); argument != nil && argument.Value.Kind != ast.NullValue {
		page.argument = argument.Value
	}
	if argument := field.Arguments.ForName("last"); argument != nil && argument.Value.Kind != ast.NullValue {
		page.lastArgument = argument.Value
	}
	return &page
}

// elementsOf returns the number of items of a list that is not in a connection. of is the field around the list. If an argument of
// the list is a list of keys or IDs, the answer has one item for each of them. If of is a mutation with a list ids in its input, the
// answer has one item for each of these, but they count at most as assumedListItems unless all is true. all means that a page is read
// for each item: then a list of unknown length counts as long as it can be.
func (c costModel) elementsOf(field, of *ast.Field, all bool) itemCount {
	for _, argument := range field.Arguments {
		definition := field.Definition.Arguments.ForName(argument.Name)
		if definition != nil && definition.Type.Elem != nil {
			return itemCount{argument: argument.Value, isList: true, countIfAbsent: assumedListItems}
		}
	}
	if strings.HasPrefix(field.ObjectDefinition.Name, "__") {
		return itemCount{countIfAbsent: 1} // introspection has its own bounds
	}
	most, known := c.maxListLengths[field.ObjectDefinition.Name+"."+field.Name]
	if !known {
		return itemCount{countIfAbsent: assumedListItems}
	}
	items := itemCount{countIfAbsent: most}
	if !all {
		items.countIfAbsent = min(most, assumedListItems)
		items.upperBound = items.countIfAbsent
	}
	items.argument, items.listKey = idsArgumentOf(of)
	items.isList, items.emptyIsAbsent = items.argument != nil, true
	return items
}

// idsArgumentOf finds the list ids in the argument input of a field; nil without one. If the input is a variable, value is the
// variable, and key is the name of the list in it. If the input is a literal, value is the list itself.
func idsArgumentOf(field *ast.Field) (value *ast.Value, key string) {
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
