package notifications

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// preferencesText reads the preferences of one user or of several.
const preferencesText = `SELECT user_number, ver, preferences FROM category_preferences WHERE {user user_number}`

var (
	// ensurePreferences makes the row, so that it can be locked: FOR UPDATE cannot lock a missing row, and one of two concurrent
	// first preferences would be lost. Version 0 means that the user has set no preference.
	ensurePreferences = sql.NewStatement("make category preferences", `INSERT INTO category_preferences (user_number, ver, preferences) VALUES ($1, 0, $2)
		ON CONFLICT (user_number) DO NOTHING`)

	// selectPreferences takes no lock. It is for readers.
	selectPreferences = sql.NewUserStatement("category preferences", "category preferences of users", preferencesText)

	// lockPreferences reads preferences and locks their rows.
	lockPreferences = sql.NewUserStatement("lock category preferences", "lock category preferences of users", preferencesText+` {for update}`)

	// putPreferences expects that the row exists and is locked.
	putPreferences = sql.NewStatement("set category preferences", `UPDATE category_preferences SET ver = $2, preferences = $3 WHERE user_number = $1`)
)

// storedPreference is a preference as the column preferences has it. A field that is left out has the default, so that a new default
// reaches everybody who chose nothing.
type storedPreference struct {
	Mode        string     `json:"mode,omitempty"`  // one of modeNames; without it, the mode of the category's definition
	Alerts      *bool      `json:"push,omitempty"`  // whether new items alert; nil is the default, true
	AlertsSince *time.Time `json:"since,omitempty"` // items from before this time do not alert
}

// preferenceFields are the names of the fields of storedPreference.
var preferenceFields = []string{"mode", "push", "since"}

// modeNames are the stored names of modes.
var modeNames = map[services.CategoryMode]string{services.CategoryCounted: "COUNT", services.CategoryDot: "DOT", services.CategoryOff: "OFF"}

// preferences are a user's preferences of categories, by the name of each. A category without a preference counts and alerts by
// its definition.
type preferences struct {
	version    uint64 // rises with each change; 0: the user has set no preference
	byCategory map[services.Category]Preference
	stored     string // the column preferences, which a newer node may have written; "" for none
}

// modes returns the modes that the user chose, in the form that the document has.
func (p preferences) modes() services.CategoryModes {
	modes := services.CategoryModes{Version: p.version}
	for category, preference := range p.byCategory {
		if !preference.ModeChosen {
			continue
		}
		if modes.ByCategory == nil {
			modes.ByCategory = map[services.Category]services.CategoryMode{}
		}
		modes.ByCategory[category] = preference.Mode
	}
	return modes
}

// preferencesOf reads a user's preferences. A user without any has version 0.
func preferencesOf(ctx context.Context, r sql.Reader, user services.UserID) (preferences, error) {
	all, err := readPreferences(ctx, r, selectPreferences, []services.UserID{user})
	return all[user], err
}

// readPreferences reads the preferences of some users by selectPreferences or lockPreferences. Users without any are absent.
func readPreferences(ctx context.Context, r sql.Reader, both sql.UserStatement, users []services.UserID) (map[services.UserID]preferences, error) {
	all := make(map[services.UserID]preferences, len(users))
	st, of := both.ForUsers(users)
	err := r.Each(ctx, st, []any{of}, func(scan func(...any) error) error {
		var user services.UserID
		var version uint64
		var text string
		if err := scan(&user, &version, &text); err != nil {
			return err
		}
		found, err := parsePreferences(version, text)
		if err != nil {
			return fmt.Errorf("category preferences of user %d: %w", user, err)
		}
		all[user] = found
		return nil
	})
	return all, err
}

// parsePreferences parses the column preferences. A mode that this version does not know counts as not chosen. Until the user chooses
// another one, changePreference keeps it.
func parsePreferences(version uint64, text string) (preferences, error) {
	found := preferences{version: version, byCategory: map[services.Category]Preference{}, stored: text}
	list := map[services.Category]storedPreference{}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return found, err
	}
	for category, one := range list {
		preference := Preference{NoPush: one.Alerts != nil && !*one.Alerts}
		// A name that is not in modeNames was written by a newer node.
		preference.unknownMode = one.Mode
		for mode, name := range modeNames {
			if one.Mode == name {
				preference.choose(mode)
			}
		}
		if one.AlertsSince != nil {
			preference.alertsSince = *one.AlertsSince
		}
		found.byCategory[category] = preference
	}
	return found, nil
}

// changePreference changes a user's preference of one category; usual is the mode of the category's definition. Changes of one
// user run one after the other, and each raises the version by one. If the preference does not change, nothing is written and
// changed is false. Of the column only this preference changes: a newer node may have written categories, modes and fields that this
// node does not know, and they stay.
func changePreference(ctx context.Context, tx *sql.Tx, user services.UserID, category services.Category, usual services.CategoryMode, change func(*Preference)) (changed bool, err error) {
	if _, err := tx.Run(ctx, ensurePreferences, user, "{}"); err != nil {
		return false, err
	}
	// The row is there: ensurePreferences has made it.
	all, err := readPreferences(ctx, tx, lockPreferences, []services.UserID{user})
	if err != nil {
		return false, err
	}
	found := all[user]
	before := found.byCategory[category]
	after := before
	change(&after)
	if after == before {
		return false, nil
	}
	// Items from before this change must not alert now.
	if after.alerts(usual) && !before.alerts(usual) {
		after.alertsSince = tx.Now
	}
	text, err := found.storedWith(category, after)
	if err != nil {
		return false, err
	}
	_, err = tx.Run(ctx, putPreferences, user, int64(found.version+1), text)
	return true, err
}

// storedWith returns the column preferences with another preference of one category.
func (p preferences) storedWith(category services.Category, preference Preference) (string, error) {
	var list map[services.Category]map[string]json.RawMessage
	if err := json.Unmarshal([]byte(p.stored), &list); err != nil {
		return "", err
	}
	if list == nil {
		list = map[services.Category]map[string]json.RawMessage{}
	}
	if list[category] == nil {
		list[category] = map[string]json.RawMessage{}
	}
	fields := list[category]
	one := storedPreference{Mode: preference.unknownMode}
	if preference.ModeChosen {
		one.Mode = modeNames[preference.Mode]
	}
	if preference.NoPush {
		// new(bool) is false: true is the default and is left out.
		one.Alerts = new(bool)
	}
	if !preference.alertsSince.IsZero() {
		one.AlertsSince = &preference.alertsSince
	}
	known, err := json.Marshal(one)
	if err != nil {
		return "", err
	}
	for _, name := range preferenceFields {
		delete(fields, name) // one leaves out what has its default
	}
	if err := json.Unmarshal(known, &fields); err != nil { // adds the fields to the others
		return "", err
	}
	text, err := json.Marshal(list)
	return string(text), err
}
