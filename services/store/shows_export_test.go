package store

import (
	"maps"

	"tidings/services"
)

func init() {
	maps.Copy(Statements, map[string]statement{
		"lockHead": lockHead, "showForUpdate": showForUpdate, "showForShare": showForShare, "showsByID": showsByID, "countUpcoming": countUpcoming,
		"activeShows": activeShows, "showHistory": showHistory, "endedShows": endedShows, "forgetFormer": forgetFormer, "hostReplays": hostReplays,
		"pulledReplays": pulledReplays, "replaysFeed": replaysFeed, "oneHost": oneHost, "lowerHostUnnamed": lowerHostUnnamed,
		"unpublishedShows": unpublishedShows, "setHostVersion": setHostVersion, "hostVersions": hostVersions, "hostsBy": hostsBy,
		"unfollowedSince": unfollowedSince, "forgetPastFollows": forgetPastFollows,
		"remindersOf": remindersOf, "remindsOf": remindsOf, "countReminders": countReminders,
		"unnamedHosts": unnamedHosts, "importedShows": importedShows,
		"wanted": factsByCategory[services.CategoryReminder].named, "wantedOfSubject": factsByCategory[services.CategoryReminder].ofSubject,
	})
}
