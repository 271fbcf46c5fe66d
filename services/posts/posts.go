// Package posts has the facts of posts in SQL: answers, likes and mentions, the counts of each post, home feeds, and how an
// author's posts reach followers.
//
// Its functions run in the transactions of other packages: services/feed publishes and likes posts and lists home feeds,
// services/notifications reads likes, and fan-out and the node caches read posts. So it lies below all of them and has no service, no
// jobs and nothing in Redis.
//
// The counts of a post change in the transaction of the like or answer that they count. If a recount from the facts differs, that
// is a fault, which CountAudit finds and corrects in the turns of services/audit. The statement that reads a page leaves out what is
// hidden from the viewer, so that pages are full, unless too many rows are hidden.
//
// The files: facts has the posts themselves, facts_counts likes and counts, facts_feed the home feed as one statement,
// facts_lists answers and likes, facts_published the posts of a profile, facts_authors modes and thresholds, facts_pulled the
// posts of huge authors and the fan-outs in flight. memory is a node's cache of posts, recount the audit of their counts.
package posts
