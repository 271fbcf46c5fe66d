package refs

import (
	"tidings/services"
	"tidings/services/sql"
)

var (
	// The insert may conflict with two unique keys: the object's and the ref's. resolveConflict finds out which.
	insertLabel = sql.NewStatement("label an object", `INSERT INTO refs (type, object, ref, owner, url, data)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`)

	importRefs = sql.NewInsertion("import refs", "refs",
		"type TEXT, object BIGINT, ref TEXT, owner BIGINT, url TEXT, data TEXT", "ON CONFLICT DO NOTHING")

	// The row also gets a new owner: the user who claimed the ref, and who may repeat the create.
	setRef = sql.NewStatement("give a labelled object its ref", `UPDATE refs SET ref = $3, owner = $4
		WHERE type = $1 AND object = $2 AND ref = ''`)

	// The object may have no row yet. Because of the last condition, an update to the same value counts 0 rows.
	setURL = sql.NewStatement("set the url of an object", `INSERT INTO refs AS r (type, object, ref, owner, url, data) VALUES ($1, $2, '', $3, $4, '')
		ON CONFLICT (type, object) DO UPDATE SET url = excluded.url WHERE r.url <> excluded.url`)
	clearURL = sql.NewStatement("remove the url of an object", `UPDATE refs SET url = '' WHERE type = $1 AND object = $2 AND url <> ''`)

	setData = sql.NewStatement("set the data of an object", `INSERT INTO refs AS r (type, object, ref, owner, url, data) VALUES ($1, $2, '', $3, '', $4)
		ON CONFLICT (type, object) DO UPDATE SET data = excluded.data WHERE r.data <> excluded.data`)
	clearData = sql.NewStatement("remove the data of an object", `UPDATE refs SET data = '' WHERE type = $1 AND object = $2 AND data <> ''`)

	clearLabel = sql.NewStatement("remove the url and the data of an object", `UPDATE refs SET url = '', data = '' WHERE type = $1 AND object = $2`)

	deleteLabels = sql.NewStatement("delete labels", `DELETE FROM refs WHERE type = $1 AND {in object $2 BIGINT}`)

	freeRef = sql.NewStatement("free a ref", `UPDATE refs SET ref = '' WHERE type = $1 AND object = $2 AND ref <> ''`)

	deleteEmptyLabel = sql.NewStatement("delete an empty label", `DELETE FROM refs WHERE type = $1 AND object = $2 AND ref = '' AND url = '' AND data = ''`)

	// ref <> '' is the condition of the partial index: without it the index would not be used.
	holderOf = sql.NewStatement("the object of a ref", `SELECT object, owner FROM refs WHERE type = $1 AND ref = $2 AND ref <> ''`)

	holdersOf = sql.NewStatement("the objects of refs", `SELECT ref, object, owner FROM refs
		WHERE type = $1 AND {in ref $2 TEXT} AND ref <> ''`)

	// labelStatements read the labels of objects by their numbers, one statement for each of services.RefTypes.
	labelStatements = func() map[string]sql.Statement {
		statements := map[string]sql.Statement{}
		for _, kind := range services.RefTypes {
			statements[kind] = sql.NewStatement("labels of the type "+kind, `SELECT object, ref, url, data FROM refs WHERE type = '`+kind+`' AND {in object $1 BIGINT}`)
		}
		return statements
	}()
)
