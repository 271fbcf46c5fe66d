package main

import (
	"context"
	"strings"
)

// The rows of other operations: what a query costs that is not answered by the front's own loops. Each runs in turns with the same
// query under a directive, which is left to gqlgen's executor, so that the rows say what compiling saves. The peers do not have
// these fields.

// compiledOperations are the queries that are measured, each with a place (%s) for a directive at a field below the viewer or the root.
var compiledOperations = []struct{ what, query string }{
	{"a query that reads nothing", `{ __typename%s }`},
	{"the viewer's user", `{ viewer { user%s { id key name avatarUrl } } }`},
	{"notifications page of 20", `{ viewer { notifications(first: 20)%s { edges { cursor node { id upTo category at seen read actorCount actors { id key name avatarUrl }` +
		` subject { id kind body publishedAt author { id key name avatarUrl } } } } pageInfo { hasNextPage endCursor } readToken } } }`},
	{"home feed page of 20, its size in a variable", strings.Replace(strings.Replace(feedQuery, "{ viewer", "query List($first: Int = 20) { viewer", 1), "(first: 20)", "(first: $first)%s", 1)},
}

// measureCompiledOperations measures the rows of compiledOperations on a server.
func (b *bench) measureCompiledOperations(ctx context.Context, server *program) error {
	for _, one := range compiledOperations {
		query, left := strings.Replace(one.query, "%s", "", 1), strings.Replace(one.query, "%s", " @include(if: true)", 1)
		bare, err := b.startBarePagesServer(ctx, b.sharedInstallation(), server, query, readerKeysFollowing(200, b.readersPerFollowCount), func(uint32) [][]any { return nil })
		if err != nil {
			return err
		}
		compiled, executed := b.newContender("compiled", server, query, 200).profileAs(one.what), b.newContender("left to the executor", server, left, 200).profileAs(one.what+", left to the executor")
		floor := b.newContender(bareServerLabel, bare, query, 200)
		err = b.measureContenders(ctx, one.what, compiled, executed, floor)
		bare.stop()
		if err != nil {
			return err
		}
		l := resultLine{measurement: one.what + ": server CPU each", reference: "left to the executor", unit: "x the CPU"}
		l.compareCPU(compiled, executed)
		b.report.resultLines = append(b.report.resultLines, l)
		if one.query == compiledOperations[0].query {
			b.report.resultLines = append(b.report.resultLines, cpuLine(one.what+", left to the executor", executed.results, 20), bareServerCPULine(one.what+", left to the executor", executed, floor))
			continue
		}
		b.report.resultLines = append(b.report.resultLines, bareServerCPULine(one.what, compiled, floor))
	}
	return nil
}
