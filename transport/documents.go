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

// maxDocumentErrors is the number of errors that are reported for one document: validation stops there. Each error costs the time to
// build its message, and developers fix the first ones first.
const maxDocumentErrors = 10

// documentPreparer turns texts into executable documents: parsed, within DocumentLimits, and valid. It remembers them by their text. The
// checks of each step bound the cost of the next one, so that refusing a text is always cheap. The executor never parses:
// createOperation gives it the document. A text that is refused is not remembered: its work is done again each time, but no
// client can fill the cache with garbage. documentPreparer is safe for concurrent use.
type documentPreparer struct {
	schema         *ast.Schema
	maxTokens      int // the most tokens of a text
	documentLimits DocumentLimits
	linearRules    []core.Rule // rules that take time nearly linear in the document
	quadraticRules []core.Rule // rules that take quadratic time: only for documents that pass all other rules
	cache          *documentCache
	costModel      costModel // computes the costs of operations
	maxCost        int       // an operation that costs more is refused

	// persisted finds the text of a request that names it by an ID or a hash.
	persisted *persistedQueries
}

// queryDocument is an executable document. operationCosts and variablesUsedAsNonNull have one entry for each of its operations, in
// their order.
//
// All requests with its text share it. It never changes, and stays usable after the cache has dropped it.
type queryDocument struct {
	*ast.QueryDocument
	operationCosts         []cost     // of each operation
	variablesUsedAsNonNull [][]string // of each operation: what the function of this name returns
	memoryBytes            int        // its estimated memory; documentCache.add sets it
}

// costOf returns the cost of an operation with these variables. The operation must be one of the document's.
func (d *queryDocument) costOf(operation *ast.OperationDefinition, variables map[string]any) int {
	return d.operationCosts[slices.Index(d.Operations, operation)].forVariables(variables)
}

// nullVariableError returns an error if a request has a null for a variable that must not be null. If the document has no operation
// of the request's name, the executor reports that.
func (d *queryDocument) nullVariableError(request *requestParams) *gqlerror.Error {
	operation := d.Operations.ForName(request.OperationName)
	if operation == nil {
		return nil
	}
	return nullVariableError(operation, d.variablesUsedAsNonNull[slices.Index(d.Operations, operation)], request.Variables)
}

// newDocumentPreparer makes a documentPreparer with an empty cache for the schema of cfg. It divides the validation rules into two
// sets, once.
func newDocumentPreparer(cfg Config) *documentPreparer {
	d := &documentPreparer{
		schema: cfg.Schema.Schema(), maxTokens: cfg.MaxQueryTokens, documentLimits: cfg.DocumentLimits,
		cache: newDocumentCache(cfg.MaxCachedQueries, cfg.QueryCacheBytes), costModel: costModel{cfg.FieldWeights, cfg.MaxPageSizes, cfg.MaxListLengths}, maxCost: cfg.MaxQueryCost, persisted: newPersistedQueries(cfg),
	}
	// Go's order of a map is random, so the rules are sorted below.
	for name, rule := range validationRules(cfg.Introspection).GetInner() {
		one := core.Rule{Name: name, RuleFunc: rule}
		if name == rules.OverlappingFieldsCanBeMergedRule.Name {
			d.quadraticRules = append(d.quadraticRules, one)
		} else {
			d.linearRules = append(d.linearRules, one)
		}
	}
	slices.SortFunc(d.linearRules, func(a, b core.Rule) int { // errors come in the same order each time
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return d
}

// validationRules are the rules of the specification, and readableNumbersRule. Without suggestions, their messages reveal no names
// of the schema.
func validationRules(suggestions bool) *rules.Rules {
	set := rules.NewDefaultRules()
	set.AddRule(readableNumbersRule.Name, readableNumbersRule.RuleFunc)
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

// prepare returns the document of a text, or the errors that refuse it, at most maxDocumentErrors. Requests with the same text at the
// same time may each prepare it; documentCache.add then keeps one of the results.
func (d *documentPreparer) prepare(text string) (*queryDocument, gqlerror.List) {
	if known := d.cache.get(text); known != nil {
		return known, nil
	}
	// The limit of tokens is also the limit of the parser's work.
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: text}, d.maxTokens)
	if err != nil {
		if fault, ok := errors.AsType[*gqlerror.Error](err); ok && strings.HasPrefix(fault.Message, "exceeded token limit") {
			return nil, asList(services.Errorf(services.Invalid, "query: up to %d tokens are allowed", d.maxTokens))
		} else if ok {
			return nil, gqlerror.List{fault}
		}
		return nil, asList(services.Wrapf(services.Invalid, err, "query: cannot be parsed"))
	}
	if len(doc.Operations) == 0 {
		return nil, asList(services.Errorf(services.Invalid, "query: the document has no operation"))
	}
	// DocumentLimits is checked before validation, because validation expands fragments, and some rules are quadratic.
	parts, err := d.documentLimits.check(doc)
	if err != nil {
		return nil, asList(err)
	}
	for _, set := range [][]core.Rule{d.linearRules, d.quadraticRules} {
		if faults := d.validate(doc, set); len(faults) > 0 {
			return nil, faults
		}
	}
	// The costs and the results of variablesUsedAsNonNull follow from the text alone, so they are computed once.
	ready := &queryDocument{QueryDocument: doc}
	for _, operation := range doc.Operations {
		ready.operationCosts = append(ready.operationCosts, d.costModel.operation(operation))
		ready.variablesUsedAsNonNull = append(ready.variablesUsedAsNonNull, variablesUsedAsNonNull(operation))
	}
	return d.cache.add(text, ready, parts), nil
}

// errorLimitReached is the value of the panic that ends a walk over a document: a panic of an observer is the only way to stop the
// validator.
type errorLimitReached struct{}

// validate applies a set of rules in one walk. faults keeps the errors that were found before a panic ended the walk.
func (d *documentPreparer) validate(doc *ast.QueryDocument, set []core.Rule) (faults gqlerror.List) {
	defer func() {
		if fault := recover(); fault != nil && fault != (errorLimitReached{}) {
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
			if faults = append(faults, fault); len(faults) == maxDocumentErrors {
				panic(errorLimitReached{})
			}
		})
	}
	core.Walk(d.schema, doc, &observers)
	return faults
}

// preparedDocumentKey is the key under which createOperation puts the document into the context that it passes to the executor.
type preparedDocumentKey struct{}

// contextDocumentCache is the executor's query cache. It returns the document that createOperation put into the context.
type contextDocumentCache struct{}

var _ graphql.Cache[*ast.QueryDocument] = contextDocumentCache{}

// Get returns the document of the context.
func (contextDocumentCache) Get(ctx context.Context, _ string) (*ast.QueryDocument, bool) {
	doc, ok := ctx.Value(preparedDocumentKey{}).(*ast.QueryDocument)
	return doc, ok
}

// Add does nothing: documentPreparer has its own cache.
func (contextDocumentCache) Add(context.Context, string, *ast.QueryDocument) {}
