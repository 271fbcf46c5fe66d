package store

import "maps"

func init() {
	maps.Copy(Statements, map[string]statement{
		"auditRange": auditRange, "auditState": auditState, "jobUpTo": jobUpTo, "usersByKey": usersByKey, "usersByNumber": usersByNumber,
		"postsByID": postsByID,
	})
}

// ExportTexts are the texts of all that an export reads, in one.
func ExportTexts() (texts string) {
	for _, table := range exports {
		texts += table.text[sqlite] + "\n"
	}
	return texts
}
