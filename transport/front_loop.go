package transport

import (
	"context"
	"time"

	"github.com/vektah/gqlparser/v2/ast"
)

// JointSchema is a QuickSchema that answers several requests of different viewers with one read.
type JointSchema interface {
	QuickSchema
	// Joint returns what AnswerJointly needs to know of an operation without variables; nil if it must be answered by itself.
	Joint(operation *ast.OperationDefinition) any
	// AnswerJointly appends the data of the answers, as Quick would. It waits for Redis alone, and not for a rebuild or for SQL.
	AnswerJointly(ctx context.Context, requests []JointRequest)
}

// JointRequest is one of several requests that are answered together.
type JointRequest = struct {
	Context   context.Context // has the viewer
	Operation any             // what Joint returned
	Text      []byte          // the answer is appended to it
	OK        bool            // it was answered
	// How to answer it if it was not, in a goroutine of its own; nil: by the Quick of its operation.
	Else func(ctx context.Context, to []byte) ([]byte, bool)
}

const (
	// A connection joins a loop after so many requests in a row that can be answered jointly: one that asks for other things in
	// between would pay for each change.
	jointAfter = 8
	// After a request that a loop could not answer, as of a viewer who never has a document, so many more.
	jointPause = 8
	// A loop whose read takes longer than this gets another goroutine: the other connections need not wait for it.
	relieveAfter = 5 * time.Millisecond
	// How many requests are answered at once. Their badges' documents are some 50 KB; a page has a few KB of answer each.
	jointAtOnce = 64
)
