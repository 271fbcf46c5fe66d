package store

import "maps"

func init() {
	maps.Copy(Statements, map[string]statement{
		"auditRange": auditRange, "auditState": auditState, "jobUpTo": jobUpTo, "usersByKey": usersByKey, "usersByNumber": usersByNumber,
		"postsByID": postsByID,
	})
}
