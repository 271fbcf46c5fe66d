package main

import (
	"context"
	"strings"
)

// The rows of other operations. Each query runs in turns with the same query under a directive, which is left to gqlgen's executor, so that
// the rows say what compiling saves. The baselines do not have these fields.

// compiledOperations are the queries that are measured, each with a place (%s) for a directive at a field below the viewer or the root.
// floorReads returns the commands of the bare server; nil where Tidings reads nothing of Redis, but SQL or its own memory.
var compiledOperations = []struct {
	what, query string
	floorReads  func(user uint32) [][]any
}{
	{"a query that reads nothing", `{ __typename%s }`, nil},
	{"the viewer's user", `{ viewer { user%s { id key name avatarUrl } } }`, nil},
	{"notifications page of 20", `{ viewer { notifications(first: 20)%s { edges { cursor node { id upTo category at seen read actorCount actors { id key name avatarUrl }` +
		` subject { id kind body publishedAt author { id key name avatarUrl } } } } pageInfo { hasNextPage endCursor } readToken } } }`, nil},
	{"home feed page of 20, its size in a variable", strings.Replace(strings.Replace(feedQuery, "{ viewer", "query List($first: Int = 20) { viewer", 1), "(first: 20)", "(first: $first)%s", 1), inboxRedisCommands},
}

// measureCompiledOperations measures the rows of compiledOperations on a server.
func (b *bench) measureCompiledOperations(ctx context.Context, server *program) error {
	for _, one := range compiledOperations {
		query, left := strings.Replace(one.query, "%s", "", 1), strings.Replace(one.query, "%s", " @include(if: true)", 1)
		reads, floorLabel := one.floorReads, bareServerLabel
		if reads == nil {
			reads, floorLabel = func(uint32) [][]any { return nil }, bareServerWithoutReadsLabel
		}
		bare, err := b.startBarePagesServer(ctx, b.sharedInstallation(), server, query, readerKeysFollowing(200, b.readersPerFollowCount), reads)
		if err != nil {
			return err
		}
		compiled, executed := b.newContender("compiled", server, query, 200).profileAs(one.what), b.newContender("left to the executor", server, left, 200).profileAs(one.what+", left to the executor")
		floor := b.newContender(floorLabel, bare, query, 200)
		err = b.measureContenders(ctx, one.what, compiled, executed, floor)
		bare.stop()
		if err != nil {
			return err
		}
		l := resultLine{measurement: one.what + ": server CPU each", reference: "left to the executor", unit: "x the CPU"}
		l.compareCPU(compiled, executed)
		b.report.resultLines = append(b.report.resultLines, l)
		besideFloor := func(what string, ours *contender) {
			l := bareServerCPULine(what, ours, floor)
			l.reference = floorLabel
			b.report.resultLines = append(b.report.resultLines, l)
		}
		if one.query == compiledOperations[0].query {
			what := one.what + ", left to the executor"
			b.report.resultLines = append(b.report.resultLines, cpuLine(what, executed.results, 20))
			besideFloor(what, executed)
			continue
		}
		besideFloor(one.what, compiled)
	}
	return nil
}
