package main

import "fmt"

// reportNotes returns the conditions that a reader of the figures must know.
func reportNotes(o options) []string {
	return []string{
		"Client, servers and Redis share the processors. The client is our own (a closed loop of keep-alive HTTP/1.1 connections, as lean as it can be); it weighs on the faster program most, and so every ratio here is smaller than with a client elsewhere.",
		fmt.Sprintf("Mercurius runs in %d process(es) of Node, with graphql-jit (jit: 1) and ioredis with enableAutoPipelining. A process of Node uses one processor, a Go program all; \"server CPU each\" does not depend on that.", o.mercuriusProcesses),
		"Bun is the npm package bun with its program for this machine, graphql-jit and Bun's own Redis client, in one process. Its schema and its reads are those of the Mercurius baseline. Like the other baselines it checks no token and has no limits.",
		"Before a row is measured, each baseline's answers are compared with ours for every reader: they are equal, field by field.",
		"For the home feed the baselines read the inbox, the posts and the authors in Redis for each page. Tidings reads the inbox in Redis, and posts and authors in its memory, where they are after the first page: that is its design and part of the ratio.",
		"An event at once: for Tidings the documents' versions are raised in Redis first; then hints are published, and the latency counts from there to the client: Redis' pub/sub, the batched read of the documents, rendering and the frame. The baselines are told by one HTTP request and have nothing to read.",
		fmt.Sprintf("Memory of a socket is the growth of the process' VmRSS while the sockets are opened, %v after the last.", o.waitBeforeMemoryRead),
		"How others fare while one group talks or one person is liked is the time of their badge query on a few connections, in a closed loop, before and meanwhile. The rush's own client and Redis take their part of the processors from them, which they would not on machines of their own.",
		fmt.Sprintf("The processor time beside a mutation is what its server used until the next one began, %v later: it has the jobs of the mutation, and what a node does at rest.", pauseAfterWrite),
		"The badge query with every source lit has no baseline beside it: they know the home feed and the notifications only.",
		"A script's time is by the wall clock of Redis: where another program had the processor meanwhile, that counts too. \"Beyond\" says how rare it was.",
	}
}
