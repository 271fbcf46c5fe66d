package stream

import (
	"context"
	"maps"
	"slices"
	"time"

	"tidings/services"
)

// explainingItems are the items that explain the difference of two states of a user's badges. The zero value is for a difference without
// items.
type explainingItems struct {
	newItems            []AlertItem          // the newest items of parts that rose or moved, if they are newer than any reported item
	newestOfFallenParts map[string]AlertItem // of parts that fell and have an alert, by name; absent if no item alerts any more
}

// mayAlert reports whether items of a part alert the user: only items of parts in the total do. Mentions are in the total with the
// messages. A part that is only shown, such as a dot, is no reason to wake a phone.
func (s State) mayAlert(part Part) bool { return part.InTotal || s.part(part.Source, "").InTotal }

// fallenParts lists the parts with an alert that are smaller than before, and not 0. Their newest items must be looked up, because the
// counts do not say whether the item that alerted was read, or another item. The parts are in the order of their names.
func (s State) fallenParts(before State) (parts []Part) {
	for _, name := range slices.Sorted(maps.Keys(before.Alerts)) {
		alert := before.Alerts[name]
		part := s.part(alert.Source, alert.Part)
		if part.Value > 0 && part.Value < before.part(alert.Source, alert.Part).Value {
			parts = append(parts, part)
		}
	}
	return parts
}

// unreadAlerts are the alerts of the earlier state whose items are still unread. An item was read if its part shows nothing, or
// fell and has only older items. Then the part's earlier alert counts again, for readers who have not got it yet. left has the
// newest items of the parts that fell.
func (s State) unreadAlerts(before State, left map[string]AlertItem) map[string]AlertItem {
	unread := map[string]AlertItem{}
	for name, alert := range before.Alerts {
		part := s.part(alert.Source, alert.Part)
		if !s.mayAlert(part) {
			continue
		}
		// A part that did not fall is assumed to still have its item: to look up every part for every change would cost a read of SQL
		// each time.
		if part.Value < before.part(alert.Source, alert.Part).Value {
			newest, some := left[name]
			if older := newest.At.Before(alert.At); !some || older && alert.EarlierAlertSeq == 0 {
				continue
			} else if older {
				// The older item has the version of the earlier alert. So a reader who got that alert is not alerted again.
				newest.Seq = alert.EarlierAlertSeq
				alert = newest
			}
		}
		unread[name] = alert
	}
	return unread
}

// NewestAlertOf is the newest item of the chosen parts that alerted the user after a version and is unread, nil for none. Among items
// of the same time, the first part by name wins.
func (s State) NewestAlertOf(chosen func(source services.Source, part string) bool, after uint64) (newest *AlertItem) {
	for _, name := range slices.Sorted(maps.Keys(s.Alerts)) {
		alert := s.Alerts[name]
		if alert.Seq > after && chosen(alert.Source, alert.Part) && (newest == nil || newest.At.Before(alert.At)) {
			newest = &alert
		}
	}
	return newest
}

// NewestAlert is the newest item of any part that alerted the user after a version and is unread, nil for none.
func (s State) NewestAlert(after uint64) *AlertItem {
	return s.NewestAlertOf(func(services.Source, string) bool { return true }, after)
}

// NewestAlertVersion is the version of the last alert whose item is unread, 0 for none.
func (s State) NewestAlertVersion() (version uint64) {
	for _, alert := range s.Alerts {
		version = max(version, alert.Seq)
	}
	return version
}

// explainDifference looks up the items that explain the difference of two states. If no part rose, moved or fell it reads nothing:
// most changes only raise a version or clear a count.
func (s *Service) explainDifference(ctx context.Context, user services.UserID, badges *services.Badges, now, before State, since alertStart) (found explainingItems, err error) {
	risen, moved, fallen := now.risenParts(before), now.partsWithChangedItems(before), now.fallenParts(before)
	if len(risen)+len(moved)+len(fallen) == 0 {
		return found, nil
	}
	rose, shifted, fell := map[string]bool{}, map[string]bool{}, map[string]bool{}
	var sources []services.Source
	ask := func(parts []Part, names map[string]bool) {
		for _, part := range parts {
			names[services.PartName(part.Source, part.Name)] = true
			if !slices.Contains(sources, part.Source) {
				sources = append(sources, part.Source)
			}
		}
	}
	// One call asks for the parts of all kinds, each source once.
	ask(risen, rose)
	ask(moved, shifted)
	ask(fallen, fell)
	recent := s.cfg.Clock.Now().Add(-maxAlertAge)
	from := recent
	if len(fallen) > 0 {
		from = time.Time{} // an alert that a reader has not received yet may be old
	}
	newest, err := s.cfg.NewestItems(ctx, user, badges, sources, from)
	if err != nil {
		return found, err
	}
	found.newestOfFallenParts = map[string]AlertItem{}
	for _, explanation := range newest {
		source, part, item := explanation.Source, explanation.Part, explanation.Items[0]
		name, cause := services.PartName(source, part), AlertItem{Source: source, Part: part, ID: item.ID, At: item.At, Ahead: explanation.Ahead}
		if fell[name] {
			found.newestOfFallenParts[name] = cause
		}
		// An item of a part that only fell is no news. Neither is an old item that raised the count: by an import, by the end of a
		// mute, or by a follow mode in which more counts.
		//
		// A part that moved, and whose newest items are not all counted yet, waits for the next change. A part that rose does not wait: in
		// a long burst of messages some are never counted yet.
		if !rose[name] && (!shifted[name] || item.AtIsUncertain || cause.Ahead) || item.At.Before(since.forSource(source)) || item.At.Before(recent) {
			continue
		}
		if seen, some := before.newestReported(source, part); some && seen.covers(cause) {
			continue // the item was reported already
		}
		found.newItems = append(found.newItems, cause)
	}
	return found, nil
}
