// Package rdb is Redis: keys, scripts (*.lua), the only importer of go-redis.
//
// It guarantees that every view of Redis is written by a script that may be repeated, that a read of several keys is
// one round trip, and that a call ends when its context ends. What it keeps can be rebuilt from the facts in SQL: an
// answer from here is a view, never a fact.
//
// When Redis does not answer, every call fails with the code UNAVAILABLE, within the read timeout at first and at once
// as soon as the breaker has opened; the breaker tries again twice a second. Reads, for which SQL is the other way, wait
// half as long, and one that times out makes the others fail at once until a read is answered again. A private server
// that dies is started again, empty. Hints that are under way when a connection breaks are lost, and the receiver is told to read anew.
package rdb
