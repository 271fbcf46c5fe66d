package live

import (
	"context"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// showsOfHosts reads pages of the shows of several hosts, for sql.ReadUserLists: $1 has the index of each page, its host (owner) and the
// ID before which it begins, $2 is the most rows of a page, and $3 is the viewer. bound is the ID of a page's last show, or 0. The
// second column is 0, because no row of a page is skipped. A host who hides from the viewer or blocks them has no row.
var showsOfHosts = sql.NewStatement("shows of users", `
WITH ranges AS MATERIALIZED (
	SELECT c.i, c.owner, c.before, COALESCE((SELECT s.id FROM shows s WHERE s.host = c.owner AND s.id < c.before ORDER BY s.id DESC LIMIT 1 OFFSET $2 - 1), 0) AS bound
	FROM {rows $1 i BIGINT, owner BIGINT, before BIGINT} AS c WHERE NOT `+people.HidesFromCondition("c.owner", "$3")+`
)
SELECT c.i, 0, `+showColumnList+`ranges c CROSS JOIN shows s WHERE s.host = c.owner AND s.id < c.before AND s.id >= c.bound ORDER BY c.i, s.id DESC`)

// HostedBy reads pages of the shows of users, whatever their status, the most recently created first, by one statement.
func (s *Service) HostedBy(ctx context.Context, viewer services.UserID, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[Show], error) {
	return hostedBy(ctx, s.db, viewer, pages)
}

// hostedBy reads the pages of HostedBy from a database, without a Service.
func hostedBy(ctx context.Context, db *sql.DB, viewer services.UserID, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[Show], error) {
	return sql.ReadUserLists(ctx, db.Runner, showsOfHosts, viewer, pages, func(scan func(...any) error, first ...any) (Show, uint64, error) {
		show, err := scanShow(scan, first...)
		return show, uint64(show.ID), err
	})
}
