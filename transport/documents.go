package transport

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator/core"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"tidings/services"
)

// maxErrors is how many errors of one document are reported: validation stops at the last of them.
const maxErrors = 10

// documents turns texts into documents that can be executed: parsed, of an allowed shape, valid. It remembers them by
// their text. Each step costs no more than what the step before it has let through, so that no text of any shape is dear
// to refuse. The executor never parses: it takes what createOperation hands it. It is safe for concurrent use.
type documents struct {
	schema *ast.Schema
	tokens int
	shape  Shape
	first  []core.Rule // nearly linear in the document
	second []core.Rule // quadratic: only for documents in which all else is right
	cache  *documentCache
	costs  costs
	dear   int // an operation that costs more is refused

	persisted *persisted
}

// document is one that can be executed, with the costs of its operations, in their order.
type document struct {
	*ast.QueryDocument
	costs []cost
}

// costOf is what an operation of the document costs with these variables.
func (d *document) costOf(operation *ast.OperationDefinition, variables map[string]any) int {
	return d.costs[slices.Index(d.Operations, operation)].in(variables)
}

func newDocuments(cfg Config) *documents {
	d := &documents{
		schema: cfg.Schema.Schema(), tokens: cfg.QueryTokens, shape: cfg.Shape,
		cache: newDocumentCache(cfg.QueryCache, cfg.QueryCacheBytes), costs: costs{cfg.Weights}, dear: cfg.QueryCost, persisted: newPersisted(cfg),
	}
	for name, rule := range validationRules(cfg.Introspection).GetInner() {
		one := core.Rule{Name: name, RuleFunc: rule}
		if name == rules.OverlappingFieldsCanBeMergedRule.Name {
			d.second = append(d.second, one)
		} else {
			d.first = append(d.first, one)
		}
	}
	slices.SortFunc(d.first, func(a, b core.Rule) int { // errors come in the same order each time
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return d
}

// validationRules are the rules of the specification. Without suggestions their messages name nothing of the schema.
func validationRules(suggestions bool) *rules.Rules {
	set := rules.NewDefaultRules()
	if suggestions {
		return set
	}
	for _, rule := range []struct{ with, without core.Rule }{
		{rules.FieldsOnCorrectTypeRule, rules.FieldsOnCorrectTypeRuleWithoutSuggestions},
		{rules.KnownArgumentNamesRule, rules.KnownArgumentNamesRuleWithoutSuggestions},
		{rules.KnownTypeNamesRule, rules.KnownTypeNamesRuleWithoutSuggestions},
		{rules.ScalarLeafsRule, rules.ScalarLeafsRuleWithoutSuggestions},
		{rules.ValuesOfCorrectTypeRule, rules.ValuesOfCorrectTypeRuleWithoutSuggestions},
	} {
		set.ReplaceRule(rule.with.Name, rule.without.RuleFunc)
	}
	return set
}

// prepare gives the document of a text, or the errors that refuse it, at most maxErrors.
func (d *documents) prepare(text string) (*document, gqlerror.List) {
	if known := d.cache.get(text); known != nil {
		return known, nil
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: text}, d.tokens)
	if err != nil {
		if fault, ok := errors.AsType[*gqlerror.Error](err); ok && strings.HasPrefix(fault.Message, "exceeded token limit") {
			return nil, asList(services.Errorf(services.Invalid, "query: up to %d tokens are allowed", d.tokens))
		} else if ok {
			return nil, gqlerror.List{fault}
		}
		return nil, asList(services.Wrapf(services.Invalid, err, "query: cannot be parsed"))
	}
	if len(doc.Operations) == 0 {
		return nil, asList(services.Errorf(services.Invalid, "query: the document has no operation"))
	}
	parts, err := d.shape.check(doc)
	if err != nil {
		return nil, asList(err)
	}
	for _, set := range [][]core.Rule{d.first, d.second} {
		if faults := d.validate(doc, set); len(faults) > 0 {
			return nil, faults
		}
	}
	ready := &document{QueryDocument: doc, costs: make([]cost, len(doc.Operations))}
	for i, operation := range doc.Operations {
		ready.costs[i] = d.costs.operation(operation)
	}
	return d.cache.add(text, ready, parts), nil
}

// enoughErrors ends a walk over a document.
type enoughErrors struct{}

func (d *documents) validate(doc *ast.QueryDocument, set []core.Rule) (faults gqlerror.List) {
	defer func() {
		if fault := recover(); fault != nil && fault != (enoughErrors{}) {
			panic(fault)
		}
	}()
	var observers core.Events
	for _, rule := range set {
		rule.RuleFunc(&observers, func(options ...core.ErrorOption) {
			fault := &gqlerror.Error{Rule: rule.Name}
			for _, option := range options {
				option(fault)
			}
			if faults = append(faults, fault); len(faults) == maxErrors {
				panic(enoughErrors{})
			}
		})
	}
	core.Walk(d.schema, doc, &observers)
	return faults
}

// preparedKey finds the document in the context of CreateOperationContext.
type preparedKey struct{}

// prepared is what the executor takes for its query cache: it holds the one document that the context brings.
type prepared struct{}

var _ graphql.Cache[*ast.QueryDocument] = prepared{}

// Get answers the document of the context.
func (prepared) Get(ctx context.Context, _ string) (*ast.QueryDocument, bool) {
	doc, ok := ctx.Value(preparedKey{}).(*ast.QueryDocument)
	return doc, ok
}

// Add does nothing: documents remember by themselves.
func (prepared) Add(context.Context, string, *ast.QueryDocument) {}
