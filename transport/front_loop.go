package transport

import (
	"context"
	"time"

	"github.com/vektah/gqlparser/v2/ast"
)

// JointSchema is a HotSchema that answers several requests of different viewers with one read.
type JointSchema interface {
	HotSchema
	// Joint returns the data that AnswerJointly needs for an operation with its variables; nil if it must be answered separately.
	Joint(operation *ast.OperationDefinition, variables map[string]any) any
	// AnswerJointly appends the data of each answer to its Text, as its HotAnswerFunc would, and sets its OK. It waits only for
	// Redis, and never for a rebuild or for SQL.
	AnswerJointly(ctx context.Context, requests []JointRequest)
}

// JointRequest is one of several requests that are answered together.
type JointRequest = struct {
	Context   context.Context // has the viewer
	Operation any             // the result of Joint
	Text      []byte          // the answer is appended to it
	OK        bool            // it was answered
	// If OK is false, Else answers the request in a goroutine of its own. If Else is nil, the HotAnswerFunc of the operation does.
	Else func(ctx context.Context, to []byte) ([]byte, bool)
}

const (
	// A connection joins a loop after this many requests in a row that can be answered jointly. If it joined earlier, a client that
	// sends other requests in between would often pay the cost of joining and leaving.
	minJointStreak = 8
	// After a request that a loop could not answer, such as one of a viewer who never has a document, the connection needs this many
	// requests more.
	extraStreakAfterJointFailure = 8
	// A loop whose read takes longer than this gets another goroutine, so that its other connections do not wait for the read.
	extraRunnerAfter = 5 * time.Millisecond
	// The greatest number of requests that are answered at once. The documents of their badges have about 50 KB in all. An answer
	// with a page has a few KB.
	maxJointBatchSize = 64
)
