package store

import (
	"context"
	"fmt"
	"strings"

	"tidings/services"
)

// Exec runs any SQL within a transaction.
func (tx *Tx) Exec(ctx context.Context, text string, args ...any) error {
	_, err := tx.run(ctx, newStatement("test", text), args...)
	return err
}

// Change runs any SQL within a transaction and says how many rows it changed.
func (tx *Tx) Change(ctx context.Context, text string, args ...any) (int, error) {
	return tx.run(ctx, newStatement("test", text), args...)
}

// Dialect is "sqlite" or "postgres".
func (s *Store) Dialect() string { return s.dialect.String() }

// Query reads with any SQL, one line a row.
func (s *Store) Query(ctx context.Context, text string, args ...any) ([]string, error) {
	return s.runner.lines(ctx, text, args)
}

// Query reads within the transaction.
func (tx *Tx) Query(ctx context.Context, text string, args ...any) ([]string, error) {
	return tx.lines(ctx, text, args)
}

func (r runner) lines(ctx context.Context, text string, args []any) (lines []string, err error) {
	found, err := r.db.query(ctx, newStatement("test", text).text[r.dialect], r.dialect.bind(args))
	if err != nil {
		return nil, err
	}
	defer found.Close()
	columns, err := found.(interface{ Columns() ([]string, error) }).Columns()
	if err != nil {
		return nil, err
	}
	for found.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := found.Scan(into...); err != nil {
			return nil, err
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintln(values...)))
	}
	return lines, found.Err()
}

// Statements are the texts of what is worth looking at.
var Statements = map[string]statement{
	"homeFeed": homeFeed, "inboxFeed": inboxFeed, "countPushed": countPushed, "pulledPosts": pulledPosts, "pulledBy": pulledBy, "pullAuthors": pullAuthors,
	"authorMode": authorMode, "lowerUnnamed": lowerUnnamed, "authorsAfter": authorsAfter, "countJobsOf": countJobsOf, "heldJobs": heldJobs, "heldBefore": heldBefore, "freeJobsBefore": freeJobsBefore, "overdueJobs": overdueJobs, "remainingJobs": remainingJobs, "freeJobsOf": freeJobsOf, "authorsByNumber": authorsByNumber, "countFollowers": countFollowers, "lowerFanout": lowerFanout, "newestCounting": newestCounting, "countNew": countNew, "unreadFeed": unreadFeed, "newestOfFeed": newestOfFeed, "greatestPost": greatestPost, "followersOf": followersOf, "edgesTo": edgesTo,
	"messageStatesOf": messageStatesOf, "messageStatesOfUser": messageStatesOfUser, "messagesOf": messagesOf,
	"unreadMessagesOf": unreadMessagesOf, "messagesByID": messagesByID, "countReads": countReads, "messageHolders": messageHolders,
	"readMessages": readMessages, "unreadMessages": unreadMessages, "keepMessagesUnread": keepMessagesUnread, "messageGen": messageGen, "readMessageTypes": readMessageTypes, "typesOfMessages": typesOfMessages,
	"lockMessageTypes": lockMessageTypes, "raiseMessageVersions": raiseMessageVersions, "messageByKey": messageByKey,
	"newestViewItems": newestViewItems, "countViewItems": countViewItems, "viewsOf": viewsOf, "oneViewItem": oneViewItem, "newestViewItem": newestViewItem,
	"statesByInbox": statesByInbox, "statesByUser": statesByUser, "lowerCauses": lowerCauses, "restoreCauses": restoreCauses,
	"heldNamed": heldNamed, "heldOfSubject": heldOfSubject, "lockHeads": lockHeads, "setHeads": setHeads, "ensureStates": ensureStates,
	"moveGroups": moveGroups, "raiseVersions": raiseVersions, "groupsAt": groupsAt, "readGroups": readGroups, "readUnread": readUnread, "readUndone": readUndone,
	"unreadGroup": unreadGroup, "undoRead": undoRead, "groupAt": groupAt, "sampleActors": sampleActors, "countActors": countActors,
	"listAll": listBy[AllNotifications], "listUnread": listBy[UnreadNotifications], "listUnseen": listBy[UnseenNotifications],
	"likes": factsByCategory[services.CategoryLike].named, "likesOfSubject": factsByCategory[services.CategoryLike].ofSubject,
	"comments": factsByCategory[services.CategoryComment].named, "commentsOfSubject": factsByCategory[services.CategoryComment].ofSubject,
	"mentions": factsByCategory[services.CategoryMention].named, "mentionsOfSubject": factsByCategory[services.CategoryMention].ofSubject,
	"follows": factsByCategory[services.CategoryFollow].named, "followsOfSubject": factsByCategory[services.CategoryFollow].ofSubject,
	"edge": oneEdge, "restrictionsBetween": restrictionsBetween, "showFollow": showFollow, "blocksBetween": blocksBetween,
	"listMutes": restrictionTables[services.Mute].list, "countBlocks": restrictionTables[services.Block].count, "lockUsers": lockUsers, "holdUsers": holdUsers, "blockersOf": blockersOf, "causesOfActor": causesOfActor, "isDirect": isDirect, "hiddenAuthors": hiddenAuthors, "refusesAdder": refusesAdder, "oneGroupPolicy": oneGroupPolicy, "blocksWith": blocksWith,
	"authorPosts": authorPosts, "logCuts": logCuts, "finishJobs": finishJobs, "firstDue": firstDue,
	"readNotices": readNotices, "trimAnnouncements": trimAnnouncements, "announcementsByID": announcementsByID,
	"userNotices": userNotices, "resetDormant": resetDormant, "forgetDots": forgetDots, "noticesAfter": noticesAfter, "dropNotices": dropNotices,
}

// Text is the statement's text for an engine.
func (st statement) Text(d dialect) string { return st.text[d] }

const (
	SQLite   = sqlite
	Postgres = postgres
)

// Queued is how many writes wait for SQLite's writer.
func (s *Store) Queued() int { return len(s.writer.queue) }

// Fault is what an engine's error becomes.
var Fault = fault

// RefusesWrites says of an error that the engine takes no writes.
var RefusesWrites = refusesWrites

// Columns has a name for each value of the rows, none where there are no rows.
func (h *heldRows) Columns() ([]string, error) {
	if len(h.rows) == 0 {
		return nil, nil
	}
	return make([]string, len(h.rows[0])), nil
}
