// Package redis is the engine for Redis, and the only importer of go-redis: connections, scripts and what they answer, pipelines,
// hints, the private and the embedded server. It knows no feature: the owners of the data register their scripts, keys and settings.
//
// It guarantees that a read of several keys is one round trip, that a call ends at the deadline of its context at the latest, and that
// every registered script is loaded into every master, or sent in full until it is. Everything in Redis can be rebuilt from the facts
// in SQL: the data here is a projection, never a fact.
//
// If Redis does not answer, every call fails with the code UNAVAILABLE, at first within the read timeout, and at once after the
// breaker has opened; the breaker tries again twice a second. Reads wait half as long, because callers can read from SQL instead,
// and after one read times out the others fail at once until a read is answered again. A private server that dies is restarted,
// empty. Hints in flight on a connection that breaks are lost, and the receiver is notified to read again.
//
// The main entry points: Change, ChangeForResults and RunSequence run scripts; Read and Pipeline send plain commands; ReadFields
// joins the reads of concurrent callers. A call passes, from the outside to the network:
//
//  1. for reads, the guard, which bounds their wait and refuses them after a time-out;
//  2. the hooks that count round trips, record spans and see refused writes (roundTripHook, refusalsHook);
//  3. the breaker, which refuses every call of a server that does not answer;
//  4. the connection, which has asked its server for its lineage before anything is read from it: see Epoch.
//
// On a cluster each node has a guard of its own, so the hooks come before it.
package redis
