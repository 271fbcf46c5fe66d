package devices

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

// Registration is the outcome of a registration. The ID is for Unregister.
type Registration struct {
	ID      string
	Changed bool // false: the device was registered already, without a difference
}

// errWebPushOff is the error while this node has no keys.
var errWebPushOff = &services.Error{Code: services.Conflict, Reason: services.ReasonFeatureOff,
	Message: "Web Push is off: start every node with --vapid-private-key (TIDINGS_VAPID_PRIVATE_KEY) and --vapid-subject (TIDINGS_VAPID_SUBJECT); tidings vapid makes a key"}

// Register registers a device of a user; a repetition only records the time, unless the device fails. A browser belongs to the
// user who registered it last. A registration needs the browser's keys, which only the browser has: with other keys an endpoint
// is another device, and the answer is the same whether somebody registered the endpoint or not. INVALID for a bad endpoint, key
// or name; CONFLICT while Web Push is off.
func (s *Service) Register(ctx context.Context, user services.UserID, d NewDevice) (Registration, error) {
	if !s.On() {
		return Registration{}, errWebPushOff
	}
	at, err := s.guard.CheckURL("endpoint", d.Endpoint)
	if err == nil && at.Scheme != "https" && len(s.cfg.Allow) == 0 {
		err = services.Errorf(services.Invalid, "endpoint: %s is not an https address", services.Quote(d.Endpoint))
	}
	if err != nil {
		return Registration{}, err
	}
	if d.P256dh, d.Auth, err = checkKeys(d.P256dh, d.Auth); err != nil {
		return Registration{}, err
	}
	if d.Name != "" {
		if err := services.CheckText("name", d.Name, 1, maxNameLength); err != nil {
			return Registration{}, err
		}
	}
	// Changes from before the registration do not alert. A change between this read and the commit does alert, which is the safe
	// side.
	last, _, err := s.cfg.Stream.LastPosition(ctx)
	if err != nil {
		return Registration{}, err
	}
	hash, done := hashOf(d.Endpoint, d.P256dh, d.Auth), Registration{}
	err = s.db.Write(ctx, func(tx *sql.Tx) (err error) {
		done, err = s.register(ctx, tx, user, d, hash, at.Host, last)
		return err
	})
	if err != nil {
		return Registration{}, err
	}
	// This is the first device of the installation, as far as this node knows: wake Run, so that the stream is on at once.
	if !s.hasDevices.Swap(true) {
		services.Signal(s.firstDeviceRegistered)
	}
	return done, nil
}

// register writes a registration, under a lock of the user and of the device. last is the end of the change stream as it was read
// before the transaction.
func (s *Service) register(ctx context.Context, tx *sql.Tx, user services.UserID, d NewDevice, hash, service string, last uint64) (done Registration, err error) {
	done.ID = idOf(user, hash)
	var id services.UserID
	if found, err := tx.One(ctx, lockUser, []any{user}, &id); err != nil || !found { // the lock orders the registrations of a user
		if err == nil {
			err = services.Errorf(services.NotFound, "there is no such user any more")
		}
		return done, err
	}
	var owner services.UserID
	var vapid, name string
	var silent bool
	var attempts int
	found, err := tx.One(ctx, lockDevice, []any{hash}, &owner, &vapid, &name, &silent, &attempts)
	if err != nil {
		return done, err
	}
	done.Changed = !found || owner != user || vapid != s.keys.Public || name != d.Name || silent != d.Silent
	// Pages register at every visit, so a repetition sends nothing. A device that fails is written anew, since this request shows
	// that the browser still exists.
	if !done.Changed && attempts == 0 {
		_, err = tx.Run(ctx, touchDevice, hash, tx.Now)
		return done, err
	}
	if _, err = tx.Run(ctx, dropFormer, user, d.Endpoint, hash); err != nil {
		return done, err
	}
	if _, err = tx.Run(ctx, putDevice, hash, user, d.Endpoint, service, d.P256dh, d.Auth, s.keys.Public, d.Name, d.Silent, tx.Now, int64(0), int64(last)); err != nil {
		return done, err
	}
	_, err = tx.Run(ctx, dropOldest, user, MaxDevices)
	return done, err
}

// Unregister removes a device of a user, by its ID or by its endpoint, and reports whether there was one. It looks only among the
// user's own devices: the result for another user's device is the result for an unknown device, so that an ID reveals nothing to
// others.
func (s *Service) Unregister(ctx context.Context, user services.UserID, id, endpoint string) (changed bool, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		changed = false
		list, hashes, err := s.devicesOf(ctx, tx, user)
		if err != nil {
			return err
		}
		for i, one := range list {
			if one.ID != id && one.Endpoint != endpoint {
				continue
			}
			n, err := tx.Run(ctx, dropDevice, hashes[i], user)
			if err != nil {
				return err
			}
			changed = changed || n > 0
		}
		return nil
	})
	return changed && err == nil, err
}
