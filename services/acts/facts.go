package acts

import "tidings/services/sql"

var (
	insertAct = sql.NewStatement("begin an act", `INSERT INTO acts (id, actor, action, target, details, outcome) VALUES ($1, $2, $3, $4, $5, $6)`)

	// If $3 is empty, the row keeps its target, which an erasure may have emptied since the act began.
	setOutcome = sql.NewStatement("end an act", `UPDATE acts SET outcome = $2, target = CASE WHEN CAST($3 AS TEXT) = '' THEN target ELSE $3 END WHERE id = $1`)

	// setOutcomeWithoutTarget is for an act whose target is a user who does not exist.
	setOutcomeWithoutTarget = sql.NewStatement("end an act on nobody", `UPDATE acts SET outcome = $2, target = '', details = '' WHERE id = $1`)

	listActs = sql.NewStatement("list acts", `SELECT id, actor, action, target, details, outcome FROM acts WHERE id < $1 ORDER BY id DESC LIMIT $2`)

	// The statement deletes at most $2 acts, the oldest first, so that it does not hold locks for long.
	dropActs = sql.NewStatement("drop acts", `DELETE FROM acts WHERE id IN (SELECT id FROM acts WHERE id < $1 ORDER BY id LIMIT $2)`)

	forgetTarget = sql.NewStatement("take a name out of acts", `UPDATE acts SET target = '', details = '' WHERE target = $1`)
)
