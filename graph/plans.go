package graph

import (
	"runtime"
	"sync"
	"weak"

	"github.com/vektah/gqlparser/v2/ast"
)

// PlanCache remembers the plan that was made of each operation. It is safe for concurrent use. A plan is freed with its document: the
// key is a weak pointer, and a plan must not point to the operation. The transport bounds the bytes of the documents that it keeps.
type PlanCache[P any] struct {
	plan func(operation *ast.OperationDefinition) P // makes the plan of an operation

	mu    sync.RWMutex                                // guards known
	known map[weak.Pointer[ast.OperationDefinition]]P // operation -> its plan
}

// NewPlanCache makes an empty cache of the plans that the function plan makes.
func NewPlanCache[P any](plan func(operation *ast.OperationDefinition) P) *PlanCache[P] {
	return &PlanCache[P]{plan: plan, known: make(map[weak.Pointer[ast.OperationDefinition]]P)}
}

// Of returns the plan of an operation, and makes it at the first use. If two requests make it at the same time, the plan that is
// stored first is kept. The key is the pointer to the operation in the document that the transport keeps. So a document that was
// parsed twice has two plans.
func (p *PlanCache[P]) Of(operation *ast.OperationDefinition) P {
	key := weak.Make(operation)
	p.mu.RLock()
	known, ok := p.known[key]
	p.mu.RUnlock()
	if ok {
		return known
	}
	// The lock is not held meanwhile: compiling takes longer than a look-up, and other requests must not wait for it.
	made := p.plan(operation)
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.known[key]; ok {
		return known
	}
	p.known[key] = made
	// Without this the map would grow with every document that was ever sent, also after the transport has dropped it.
	runtime.AddCleanup(operation, p.forget, key)
	return made
}

// forget drops the plan of a document that nobody holds any more. The runtime calls it from a goroutine of its own, after the garbage
// collector has freed the operation. So no request can have the key any more.
func (p *PlanCache[P]) forget(key weak.Pointer[ast.OperationDefinition]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, key)
}
