package main

import (
	"context"
	"strings"
)

// The rows of other operations: what a query costs that is not answered by the front's own loops. Each runs in turns with the same query
// under a directive, which is left to gqlgen's executor, so that the rows say what compiling saves. The peers do not have these fields.

// otherOperations are the queries, each with a place for a directive at a field below the viewer or the root.
var otherOperations = []struct{ what, query string }{
	{"a query that reads nothing", `{ __typename%s }`},
	{"the viewer's user", `{ viewer { user%s { id key name avatarUrl } } }`},
	{"notifications page of 20", `{ viewer { notifications(first: 20)%s { edges { cursor node { id upTo category at seen read actorCount actors { id key name avatarUrl }` +
		` subject { id kind body publishedAt author { id key name avatarUrl } } } } pageInfo { hasNextPage endCursor } readToken } } }`},
	{"home feed page of 20, its size in a variable", strings.Replace(strings.Replace(feedQuery, "{ viewer", "query List($first: Int = 20) { viewer", 1), "(first: 20)", "(first: $first)%s", 1)},
}

// measureOperations measures the rows of other operations on a server.
func (b *bench) measureOperations(ctx context.Context, server *program) error {
	for _, one := range otherOperations {
		query, left := strings.Replace(one.query, "%s", "", 1), strings.Replace(one.query, "%s", " @include(if: true)", 1)
		bare, err := b.startBarePages(ctx, b.site(), server, query, readersOf(200, b.readers), func(uint32) [][]any { return nil })
		if err != nil {
			return err
		}
		compiled, executed := b.contender("compiled", server, query, 200).profileAs(one.what), b.contender("left to the executor", server, left, 200).profileAs(one.what+", left to the executor")
		floor := b.contender(whoBareServer, bare, query, 200)
		err = b.compete(ctx, one.what, compiled, executed, floor)
		bare.stop()
		if err != nil {
			return err
		}
		l := line{what: one.what + ": server CPU each", limit: "left to the executor", unit: "x the CPU"}
		l.compareCPU(compiled, executed)
		b.report.lines = append(b.report.lines, l)
		if one.query == otherOperations[0].query {
			b.report.lines = append(b.report.lines, cpuLine(one.what+", left to the executor", executed.values, 20), floorLine(one.what+", left to the executor", executed, floor))
			continue
		}
		b.report.lines = append(b.report.lines, floorLine(one.what, compiled, floor))
	}
	return nil
}
