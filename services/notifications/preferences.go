package notifications

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// Preference is how a user wants one category to count and to alert. The zero value is the default: the category's definition.
//
// A preference decides how the badges are rendered. The counts of the facts do not change, so a change is one small versioned
// field, and a change back brings back everything that is still unseen. A preference belongs to the name of a category: a
// category of the host application that is removed and defined again still has the user's preference.
type Preference struct {
	Mode       services.CategoryMode // if ModeChosen
	ModeChosen bool                  // the user chose Mode
	NoPush     bool                  // changes of the count are silent in the change stream

	// alertsSince is when the category began to alert again; zero if it always did. Older items do not alert, because alerts were off
	// when they came.
	alertsSince time.Time
	unknownMode string // the stored name of a mode that the user chose on a newer node, and that this one does not know; "" for none
}

// choose makes a mode the user's choice.
func (p *Preference) choose(mode services.CategoryMode) {
	p.Mode, p.ModeChosen, p.unknownMode = mode, true, ""
}

// chooseNone lets the definition of the category decide. The mode is then zero, so that equal preferences compare as equal.
func (p *Preference) chooseNone() {
	p.Mode, p.ModeChosen, p.unknownMode = services.CategoryCounted, false, ""
}

// effectiveMode is the mode in which the category counts for this user. usual is its mode for users without a preference.
func (p Preference) effectiveMode(usual services.CategoryMode) services.CategoryMode {
	if p.ModeChosen {
		return usual.WithUserChoice(p.Mode)
	}
	return usual
}

// alerts reports whether new items alert. Only items of a category that counts as a number do.
func (p Preference) alerts(usual services.CategoryMode) bool {
	return p.effectiveMode(usual).IsNumber() && !p.NoPush
}

// CategoryPreference is the preference of one category, with the mode in which it counts.
type CategoryPreference struct {
	Category services.Category
	Preference
}

// PreferenceChange is a change of a preference. A nil field leaves that part unchanged. UseDefault takes precedence over Mode.
type PreferenceChange struct {
	Mode       *services.CategoryMode // nil: the mode stays
	UseDefault bool                   // the category counts again by its definition
	NoPush     *bool                  // see Preference.NoPush; nil: it stays
}

// defaultMode is the mode in which a category counts for users without a preference: the mode of its definition.
func (m *CategoryMemory) defaultMode(category services.Category) services.CategoryMode {
	host, _ := m.Current().Find(category) // the zero value is right for services.Categories
	return host.DefaultMode
}

// Preferences are a user's preferences of all categories, in the order of services.Categories, and then of the host application's
// categories. A preference of a category that was removed is kept and not listed.
func (s *Service) Preferences(ctx context.Context, user services.UserID) ([]CategoryPreference, error) {
	found, err := preferencesOf(ctx, s.db, user)
	if err != nil {
		return nil, err
	}
	all := s.Memory.allCategories()
	list := make([]CategoryPreference, len(all))
	for i, category := range all {
		list[i] = CategoryPreference{category, found.byCategory[category]}
		// Mode is the effective mode, so that a client need not know the definitions.
		list[i].Mode = list[i].effectiveMode(s.Memory.defaultMode(category))
	}
	return list, nil
}

// SetPreference is the command that changes a user's preference of a category, on all devices at once. The error is INVALID for a
// name that is not a category's. If the preference is as requested, nothing changes. If AfterCommit fails, the job repeats the
// projection.
func (s *Service) SetPreference(user services.UserID, category services.Category, change PreferenceChange) (*jobs.Command, error) {
	if !slices.Contains(s.Memory.allCategories(), category) {
		return nil, services.Errorf(services.Invalid, "category: %s is not a category of notifications: expected one of %v, or one of the host application",
			services.Quote(string(category)), services.Categories)
	}
	return &jobs.Command{
		Name: "setCategoryPreference", Actor: user,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			changed, err := changePreference(ctx, tx, user, category, s.Memory.defaultMode(category), func(p *Preference) {
				// NoPush stays: alerting is chosen separately from counting.
				if change.UseDefault {
					p.chooseNone()
				} else if change.Mode != nil {
					p.choose(*change.Mode)
				}
				if change.NoPush != nil {
					p.NoPush = *change.NoPush
				}
			})
			if err == nil && !changed {
				err = jobs.ErrUnchanged
			}
			if err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx, ProjectCountsJob(user))
		},
		// Only the modes are projected: the counts of the facts did not change.
		AfterCommit: func(ctx context.Context) error {
			return s.projector.ProjectVersionedFields(ctx, user, s.modeVersionedFields)
		},
	}, nil
}

// modeVersionedFields are the user's modes of categories; none before the first preference, so that most documents have no such field.
func (s *Service) modeVersionedFields(ctx context.Context, user services.UserID) ([]rdb.VersionedField, error) {
	found, err := preferencesOf(ctx, s.db, user)
	if err != nil || found.version == 0 {
		return nil, err
	}
	return []rdb.VersionedField{rdb.ModesVersionedField(found.modes())}, nil
}

// Alerting returns a function that reports whether an item alerts, by its category (part) and its time. If the preferences cannot be
// read, the function decides by the definitions alone.
func (s Source) Alerting(ctx context.Context, user services.UserID) (func(part string, at time.Time) bool, error) {
	found, err := preferencesOf(ctx, s.db, user)
	return func(part string, at time.Time) bool {
		preference := found.byCategory[services.Category(part)]
		return preference.alerts(s.memory.defaultMode(services.Category(part))) && !at.Before(preference.alertsSince)
	}, err
}

// countingCategories returns the categories that count for a user, as a number or a dot. Lists of unseen items and digests have
// only these.
func (p preferences) countingCategories(categories []services.Category) (list []services.Category) {
	for _, category := range categories {
		// The zero value counts: a preference that chose no mode has the mode CategoryCounted.
		if p.byCategory[category].Mode != services.CategoryOff {
			list = append(list, category)
		}
	}
	return list
}
