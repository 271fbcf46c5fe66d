package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/devices"
)

// devicesKey is a key for dataloader.ReadShared: it stands for the viewer's devices.
type devicesKey struct{}

// devicesOf returns the viewer's devices, which are read once for all fields of a response. They contain no secret: the keys of a
// browser's push subscription are never shown. The payload of a registration reads them again, because registerDevice has called
// ForgetAll, which drops earlier reads.
func (r *Resolver) devicesOf(ctx context.Context, viewer *graph.Viewer) ([]graph.Device, error) {
	return dataloader.ReadShared(ctx, devicesKey{}, func(ctx context.Context) ([]graph.Device, error) {
		// The browser that registered last comes first.
		list, err := r.Devices.List(ctx, viewer.UserID)
		shown := make([]graph.Device, len(list))
		for i, d := range list {
			shown[i] = graph.Device{
				ID: d.ID, Name: orNull(d.Name), Endpoint: d.Endpoint, Silent: d.Silent, RegisteredAt: d.RegisteredAt, DeliveredAt: timeOrNull(d.DeliveredAt),
				FailingSince: timeOrNull(d.FailingSince),
			}
		}
		return shown, err
	})
}

// addDeviceNodes adds the viewer's own devices. The ID of another user's device finds no node, like an unknown ID. A user has few
// devices, so all are read, and the IDs are looked up among them.
func (r *Resolver) addDeviceNodes(ctx context.Context, viewer *graph.Viewer, ids *nodeIDs, found map[string]graph.Node) error {
	if len(ids.devices) == 0 {
		return nil
	}
	list, err := r.devicesOf(ctx, viewer)
	for _, d := range list {
		if _, asked := ids.devices[d.ID]; asked {
			found[d.ID] = d
		}
	}
	return err
}

// readBadgesAndViewer returns the badges and the viewer for a payload; nil if they could not be read. A registration changes no
// badge. Every payload has both, so that clients treat all mutations alike.
func (r *Resolver) readBadgesAndViewer(ctx context.Context, viewer *graph.Viewer) (*services.Badges, *graph.Viewer) {
	badges := nilOnError[*services.Badges](r)(r.Badge.Read(ctx, viewer.UserID))
	if badges == nil {
		return nil, nil
	}
	shown := withBadges(viewer, *badges)
	return *badges, &shown
}

// registerDevice registers the browser that calls, or changes its registration. An endpoint that another user registered becomes this
// viewer's. The mutation is not in the table operations, because the host application cannot register a browser for a user: only the
// browser has the keys of its push subscription. A browser that repeats the call changes nothing.
func (r *Resolver) registerDevice(ctx context.Context, input graph.RegisterDeviceInput) (*graph.RegisterDevicePayload, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	name := ""
	if input.Name != nil {
		name = *input.Name
	}
	done, err := r.Devices.Register(ctx, viewer.UserID, devices.NewDevice{Endpoint: input.Endpoint, P256dh: input.P256dh, Auth: input.Auth, Name: name, Silent: input.Silent})
	if err != nil {
		return nil, err
	}
	dataloader.From(ctx).ForgetAll() // earlier reads of the response are out of date now
	payload := &graph.RegisterDevicePayload{Changed: done.Changed}
	if list := nilOnError[[]graph.Device](r)(r.devicesOf(ctx, viewer)); list != nil {
		// The device is shown as it is stored, with the fields that the registration left out.
		for _, d := range *list {
			if d.ID == done.ID {
				payload.Device = &d
			}
		}
	}
	payload.Badges, payload.Viewer = r.readBadgesAndViewer(ctx, viewer)
	return payload, nil
}

// unregisterDevice ends a registration, by the device's ID or by the endpoint, which is all that a page knows of its own
// device. It is no error if the registration is already gone. Another user's device is found neither by its ID nor by its
// endpoint.
func (r *Resolver) unregisterDevice(ctx context.Context, input graph.UnregisterDeviceInput) (*graph.UnregisterDevicePayload, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	// With both, the input could name two devices; with neither, it would name none.
	if (input.ID == nil) == (input.Endpoint == nil) {
		return nil, services.Errorf(services.Invalid, "input: one of id and endpoint is required, and not both")
	}
	id, endpoint := "", ""
	if input.ID != nil {
		if id, err = devices.ParseID("id", *input.ID); err != nil {
			return nil, err
		}
	} else {
		endpoint = *input.Endpoint
	}
	changed, err := r.Devices.Unregister(ctx, viewer.UserID, id, endpoint)
	if err != nil {
		return nil, err
	}
	dataloader.From(ctx).ForgetAll()
	payload := &graph.UnregisterDevicePayload{Changed: changed}
	payload.Badges, payload.Viewer = r.readBadgesAndViewer(ctx, viewer)
	return payload, nil
}

// deviceCounts returns the counts of the devices of all users, for operators. They are counted in SQL, so every node answers the same.
func (r *Resolver) deviceCounts(ctx context.Context) (*graph.DeviceCounts, error) {
	c, err := r.Devices.Counts(ctx)
	if err != nil {
		return nil, err
	}
	shown := &graph.DeviceCounts{
		Registered: c.Registered, Waiting: c.Waiting, Dead: c.Dead, Delivered: c.DeliveredMessages, Failed: c.FailedRequests, Removed: c.RemovedDevices,
		OldestUnsentAt: timeOrNull(c.OldestDueAt), LastError: orNull(c.LastError),
	}
	// Node is the node that sends now. It is null if no node sends: while Web Push is off, or when the node has just died.
	if c.SomeNodeSends {
		shown.Node = orNull(c.SenderNode)
	}
	return shown, nil
}
