package store

import "maps"

func init() {
	maps.Copy(Statements, map[string]statement{
		"membershipsOf": membershipsOf, "activeMemberships": activeMemberships, "membershipsOfUser": membershipsOfUser,
		"conversationsOf": conversationsOf, "conversationsByID": conversationsByID, "membersOf": membersOf,
		"conversationMessagesByID": conversationMessagesByID, "mentionsOf": mentionsOf, "recountMember": recountMember, "newestUntil": newestUntil,
		"lowerMembers": lowerMembers, "mentionMembers": mentionMembers, "leasesOfDevice": leasesOfDevice, "headsOf": headsOf,
	})
}
