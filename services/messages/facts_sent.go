package messages

import (
	"context"
	"maps"
	"slices"
	"strings"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// A message is sent once its jobs are committed, and a mark of the message can come before the jobs have run: the host
// application may send and mark in one request. Until then only the jobs name the recipients. A mark that finds no row looks into
// the jobs, and delivers the message to its user at once. The job finds the row later and keeps its read state.

var (
	// typesSent finds the types of messages that exist, whoever their recipients are.
	typesSent = sql.NewStatement("types of site messages", `SELECT id, type FROM site_messages WHERE {in id $1 BIGINT}`)

	// A job keeps its row while it runs. A mark that delivers a message takes the same locks as the job, so the later of the two finds
	// the message delivered.
	deliveryPayloads = sql.NewStatement("recipients of site messages that are being delivered", `
SELECT payload FROM jobs WHERE kind = '`+jobDeliver+`' AND key <> '' AND {in key $1 TEXT}`)

	deliveryKeys = sql.NewStatement("site messages that are being delivered", `SELECT key FROM jobs WHERE kind = '`+jobDeliver+`' AND key <> ''`)
)

// typesOfOwnMessages lists the types of some messages. It fails unless each of them was sent to the user. A mark up to one message
// passes the types that it marks in upTo: if that message is still being delivered, the earlier messages are delivered too. Usually
// one SELECT is enough, because the rows exist soon after the send.
func typesOfOwnMessages(ctx context.Context, tx *sql.Tx, user services.UserID, ids []ID, upTo ...string) ([]string, error) {
	has, err := deliveredTypes(ctx, tx, user, ids)
	if err == nil && firstMissingID(has, ids) != 0 {
		if err = deliverEarly(ctx, tx, user, ids, has, upTo); err == nil {
			has, err = deliveredTypes(ctx, tx, user, ids) // also what a job has delivered in between
		}
	}
	if err != nil {
		return nil, err
	}
	// The message does not exist, was sent to others, or was brought by an import whose jobs have not run.
	if id := firstMissingID(has, ids); id != 0 {
		field := "ids"
		if len(upTo) > 0 {
			field = "upTo"
		}
		return nil, notFound(field, id)
	}
	return slices.Compact(slices.Sorted(maps.Values(has))), nil
}

// deliveredTypes are the types of those messages of which the user has a row.
func deliveredTypes(ctx context.Context, tx *sql.Tx, user services.UserID, ids []ID) (map[ID]string, error) {
	return sql.ReadMap[ID, string](ctx, tx, typesOfMessages, user, sql.Numbers(ids))
}

// firstMissingID is the first of some messages that is not among those found; 0 if all are.
func firstMissingID(found map[ID]string, ids []ID) ID {
	for _, id := range ids {
		if _, known := found[id]; !known {
			return id
		}
	}
	return 0
}

// deliverEarly delivers messages to one user before their jobs do: the messages of ids that are being delivered to the user, and
// for a mark up to a message also the earlier messages. The locks are taken in the order of types, as every mark takes them.
func deliverEarly(ctx context.Context, tx *sql.Tx, user services.UserID, ids []ID, has map[ID]string, upTo []string) error {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id ID) bool { return has[id] != "" })
	chunks, types, err := deliveriesTo(ctx, tx, user, ids)
	if err != nil || len(chunks) == 0 {
		return err
	}
	if len(upTo) > 0 {
		// "Up to this message" also means the messages that were sent before it and whose jobs have not run yet.
		earlier, typesOfEarlier, err := deliveriesBefore(ctx, tx, user, ids[0])
		if err != nil {
			return err
		}
		chunks, types = append(chunks, earlier...), append(types, typesOfEarlier...)
	}
	var lock sql.RowsParameter
	for i, kind := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(types, upTo, slices.Collect(maps.Values(has)))))) {
		// All types are locked before the first delivery. The deliveries would lock them in the order of messages.
		lock = append(lock, []any{i, user, kind})
	}
	if _, err := tx.Run(ctx, lockStates, lock); err != nil {
		return err
	}
	for _, chunk := range chunks {
		// The message is delivered to this user alone. The chunk's job stays, and finds the row.
		if _, err := deliver(ctx, tx, chunk.Message, []services.UserID{user}, chunk.SentInPast); err != nil {
			return err
		}
	}
	return nil
}

// deliveriesBefore are the deliveries of all messages before a given one whose jobs have not ended and whose recipients include a user,
// and the types of these messages.
func deliveriesBefore(ctx context.Context, tx *sql.Tx, user services.UserID, id ID) ([]delivery, []string, error) {
	keys, err := sql.ReadColumn[string](ctx, tx, deliveryKeys)
	var earlier []ID
	for _, key := range keys {
		text, _, _ := strings.Cut(key, ".")
		// A key of another form would be a job of another release: it is left to its worker.
		if one, err := services.ParseSortableID(text); err == nil && ID(one) < id {
			earlier = append(earlier, ID(one))
		}
	}
	if err != nil || len(earlier) == 0 {
		return nil, nil, err
	}
	return deliveriesTo(ctx, tx, user, slices.Compact(slices.Sorted(slices.Values(earlier))))
}

// deliveriesTo are the queued deliveries of some messages whose recipients include a user, and the types of these messages. It reads the
// payloads of all chunks, up to 40 for each message: that happens only to a mark that comes within moments after the message.
func deliveriesTo(ctx context.Context, tx *sql.Tx, user services.UserID, ids []ID) (chunks []delivery, types []string, err error) {
	exist, err := sql.ReadMap[ID, string](ctx, tx, typesSent, sql.Numbers(ids))
	if err != nil || len(exist) == 0 {
		return nil, nil, err
	}
	var keys []string
	for _, id := range slices.Sorted(maps.Keys(exist)) {
		// These are all keys that sendJobs can have given. Each key costs one lookup in the index of jobs by key.
		for i := range maxChunksPerMessage {
			keys = append(keys, deliveryJobKey(id, i))
		}
	}
	err = tx.Each(ctx, deliveryPayloads, []any{keys}, func(scan func(...any) error) error {
		var job jobs.Job
		var chunk delivery
		if err := scan(&job.Payload); err != nil {
			return err
		}
		err := jobs.ReadPayload(job, &chunk)
		if slices.Contains(chunk.Users, user) {
			chunks, types = append(chunks, chunk), append(types, exist[chunk.Message])
		}
		return err
	})
	return chunks, types, err
}
