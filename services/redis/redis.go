// Package redis is the engine that speaks with Redis, and the only importer of go-redis: connections, scripts, pipelines,
// hints, the private and the embedded server. It knows no feature: what is kept in Redis is registered by its owners.
//
// It guarantees that a read of several keys is one round trip, that a call ends when its context ends, and that every
// registered script is known to every master, or sent in full until it is. What Redis holds can be rebuilt from the facts in SQL: an
// answer from here is a view, never a fact.
//
// When Redis does not answer, every call fails with the code UNAVAILABLE, within the read timeout at first and at once
// as soon as the breaker has opened; the breaker tries again twice a second. Reads, for which SQL is the other way, wait
// half as long, and one that times out makes the others fail at once until a read is answered again. A private server
// that dies is started again, empty. Hints that are under way when a connection breaks are lost, and the receiver is told to read anew.
package redis
