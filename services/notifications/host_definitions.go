package notifications

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// ChangelogKind is the kind of log entries for the categories of the host application. The key is the name of the category.
const ChangelogKind = "category"

var (
	// One statement reads one snapshot: the version belongs to exactly the definitions in the same rows.
	readDefinitions = sql.NewStatement("categories of the host", `
SELECT latest.head, COALESCE(c.id, 0), COALESCE(c.name, ''), COALESCE(c.expiry, 0), COALESCE(c.grouped, FALSE), COALESCE(c.mode, 0)
FROM (SELECT COALESCE(max(head), 0) AS head FROM log_heads WHERE kind = '`+ChangelogKind+`') AS latest
LEFT JOIN notification_categories c ON c.removed_at = 0 ORDER BY c.id`)

	// definitionOf also reads a category that is being removed: its name is taken until its notifications are gone.
	definitionOf = sql.NewStatement("a category of the host", `SELECT id, expiry, grouped, mode, removed_at FROM notification_categories WHERE name = $1`)

	countDefinitions = sql.NewStatement("count the categories of the host", `SELECT count(*) FROM notification_categories WHERE removed_at = 0`)

	// An ID is never used again: a document's field of a removed category must not be read as a field of a later one.
	insertDefinition = sql.NewStatement("define a category", `
INSERT INTO notification_categories (name, id, expiry, grouped, mode, created_at, updated_at, removed_at) VALUES ($1, $2, $3, $4, $5, $6, $6, 0)`)

	// The ID and the name stay: document fields are named by the ID, and rows have the name.
	updateDefinition = sql.NewStatement("redefine a category", `
UPDATE notification_categories SET expiry = $2, grouped = $3, mode = $4, updated_at = $5 WHERE name = $1`)

	// The update waits for every transaction that holds the row to notify in the category: see lockHostNotification.
	removeDefinition = sql.NewStatement("remove a category", `UPDATE notification_categories SET removed_at = $2, updated_at = $2 WHERE name = $1`)

	// listDefinitions is for operators. It has the times, which nodes do not need.
	listDefinitions = sql.NewStatement("list the categories of the host", `
SELECT id, name, expiry, grouped, mode, created_at, updated_at FROM notification_categories WHERE removed_at = 0 ORDER BY id`)
)

// CategoryDefinition is a category of the host application, with the times of its definition, as operators see it.
type CategoryDefinition struct {
	services.HostCategory
	CreatedAt, UpdatedAt time.Time
}

// checkDefinition checks a definition. The error is INVALID for a name or an expiry that is not allowed. Names of Tidings' own
// categories are in capitals, so the two kinds of names never collide.
func checkDefinition(category services.HostCategory) error {
	if err := services.CheckHostCategory("name", category.Name); err != nil {
		return err
	}
	if days := category.ExpiryDays; days != services.NeverExpires && (days < 1 || days > services.MaxExpiryDays) {
		return services.Errorf(services.Invalid, "expiryDays: 1 to %d are allowed, or null for never, got %d", services.MaxExpiryDays, days)
	}
	return nil
}

// definitions reads all definitions and their version: the version of the newest entry of ChangelogKind. By this version nodes tell
// newer definitions from older ones.
func definitions(ctx context.Context, r sql.Reader) (*services.HostCategories, error) {
	read := &services.HostCategories{}
	return read, r.Each(ctx, readDefinitions, nil, func(scan func(...any) error) error {
		var host services.HostCategory
		err := scan(&read.Version, &host.ID, &host.Name, &host.ExpiryDays, &host.Grouped, &host.DefaultMode)
		if host.ID != 0 {
			read.List = append(read.List, host)
		}
		return err
	})
}

// define writes a definition, and reports whether it is new and whether anything changed. The error is CONFLICT beyond
// services.MaxHostCategories, and while a category of that name is being removed. If anything changed, the caller appends an
// entry to the changelog.
func define(ctx context.Context, tx *sql.Tx, category services.HostCategory) (made, changed bool, err error) {
	// The second of two concurrent definitions waits, and sees the first.
	if _, err := changelog.LockLog(ctx, tx, ChangelogKind); err != nil {
		return false, false, err
	}
	had := services.HostCategory{Name: category.Name}
	var removed int64
	found, err := tx.One(ctx, definitionOf, []any{string(category.Name)}, &had.ID, &had.ExpiryDays, &had.Grouped, &had.DefaultMode, &removed)
	switch category.ID = had.ID; {
	case err != nil:
		return false, false, err
	// The removed category's ID and rows are still there: a definition now would take them over.
	case removed != 0:
		return false, false, services.Errorf(services.Conflict, "name: %s is being removed: its notifications are deleted first", services.Quote(string(category.Name)))
	case found && had == category:
		return false, false, nil
	case found:
		_, err = tx.Run(ctx, updateDefinition, string(category.Name), category.ExpiryDays, category.Grouped, int(category.DefaultMode), tx.Now)
		return false, true, err
	}
	var defined int
	if _, err := tx.One(ctx, countDefinitions, nil, &defined); err != nil {
		return false, false, err
	}
	// Each category costs documents a field and every user's badges a count.
	if defined >= services.MaxHostCategories {
		return false, false, services.Errorf(services.Conflict, "name: %s would be category %d, up to %d are allowed",
			services.Quote(string(category.Name)), defined+1, services.MaxHostCategories)
	}
	id, err := tx.RaiseCounter(ctx, "notification_categories", 1)
	if err != nil {
		return false, false, err
	}
	_, err = tx.Run(ctx, insertDefinition, string(category.Name), id, category.ExpiryDays, category.Grouped, int(category.DefaultMode), tx.Now)
	return true, true, err
}

// DefineCategory is the command that defines a category of the host application, or gives a defined one other settings. The error
// is CONFLICT beyond services.MaxHostCategories, and while a category of that name is being removed.
func (s *Service) DefineCategory(category services.HostCategory) (*jobs.Command, error) {
	if err := checkDefinition(category); err != nil {
		return nil, err
	}
	return s.newDefinitionCommand("defineCategory", func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		made, changed, err := define(ctx, tx, category)
		ids := []string{string(category.Name)}
		if !made {
			ids = append(ids, jobs.ExistingObjectMarker)
		}
		if err == nil && !changed {
			err = jobs.ErrUnchanged
		}
		if err != nil {
			return ids, err
		}
		// The entry is in the same transaction, because the log's version is the version of the definitions.
		return ids, appendDefinitionChange(ctx, tx, category.Name)
	}), nil
}

// RemoveCategory is the command that removes a category of the host application from all badges and lists at once. Its
// notifications are deleted by jobs afterwards, and then its name is free. The error is NOT_FOUND if there is no such category.
func (s *Service) RemoveCategory(name services.Category) (*jobs.Command, error) {
	if err := services.CheckHostCategory("name", name); err != nil {
		return nil, err
	}
	return s.newDefinitionCommand("removeCategory", func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		// A concurrent definition waits, and then finds that the category is being removed.
		if _, err := changelog.LockLog(ctx, tx, ChangelogKind); err != nil {
			return nil, err
		}
		var had services.HostCategory
		var removed int64
		found, err := tx.One(ctx, definitionOf, []any{string(name)}, &had.ID, &had.ExpiryDays, &had.Grouped, &had.DefaultMode, &removed)
		if err == nil && (!found || removed != 0) {
			err = services.Errorf(services.NotFound, "name: there is no category %s", services.Quote(string(name)))
		}
		if err != nil {
			return nil, err
		}
		if _, err := tx.Run(ctx, removeDefinition, string(name), tx.Now); err != nil {
			return nil, err
		}
		// The job is queued in the same transaction, so that it exists after a crash. Without the job the name would be taken for
		// ever.
		if err := jobs.Enqueue(ctx, tx, purgeCategoryJob(name)); err != nil {
			return nil, err
		}
		return []string{string(name)}, appendDefinitionChange(ctx, tx, name)
	}), nil
}

// newDefinitionCommand makes a command that changes definitions. This node sees the change before it answers; the other nodes read the
// changelog.
func (s *Service) newDefinitionCommand(name string, apply func(ctx context.Context, tx *sql.Tx) ([]string, error)) *jobs.Command {
	return &jobs.Command{Name: name, Apply: apply, AfterCommit: func(ctx context.Context) error { return s.Memory.refresh(ctx) }}
}

// appendDefinitionChange notifies every node that the badges of all users may have changed. Its log entry names no users: a definition is
// shared, and laps of the change stream find the users whose badges changed.
func appendDefinitionChange(ctx context.Context, tx *sql.Tx, name services.Category) error {
	_, err := changelog.Append(ctx, tx, ChangelogKind, string(name), nil)
	return err
}

// Definitions lists the categories of the host application from SQL.
func (s *Service) Definitions(ctx context.Context) ([]CategoryDefinition, error) {
	return sql.ReadRows(ctx, s.db, listDefinitions, nil, func(scan sql.Scan, d *CategoryDefinition) error {
		var created, updated int64
		err := scan(&d.ID, &d.Name, &d.ExpiryDays, &d.Grouped, &d.DefaultMode, &created, &updated)
		d.CreatedAt, d.UpdatedAt = sql.FromMicros(created), sql.FromMicros(updated)
		return err
	})
}

// LoadAndDefineCategories loads the definitions, and defines the categories of the configuration, before the node serves.
func (s *Service) LoadAndDefineCategories(ctx context.Context) error {
	if err := s.Memory.refresh(ctx); err != nil {
		return err
	}
	return s.defineConfigured(ctx)
}

// defineConfigured defines the categories of the configuration that are not defined that way yet. While one of them is still being
// removed, each poll of the changelog tries again. mu is needed because a poll and LoadAndDefineCategories may run at once.
func (s *Service) defineConfigured(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.toDefine) == 0 {
		return nil
	}
	changed := false
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		changed = false
		for _, category := range s.toDefine {
			_, differs, err := define(ctx, tx, category)
			if err != nil {
				return err
			}
			if changed = changed || differs; differs {
				if err := appendDefinitionChange(ctx, tx, category.Name); err != nil {
					return err
				}
			}
		}
		return nil
	})
	// A conflict of one category holds up all, since they are defined in one transaction. The next poll tries again.
	if services.CodeOf(err) == services.Conflict {
		s.log.Warn("the configured categories are not all defined yet", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	// An operator may define these categories differently from now on: the configuration does not undo that until the next start.
	s.toDefine = nil
	if changed {
		return s.Memory.refresh(ctx)
	}
	return nil
}
