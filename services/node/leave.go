package node

import (
	"context"

	"tidings/resolvers"
	"tidings/services"
)

// deviceGoneHandler returns the function that runs once the last socket of a device is closed. It ends the leases by which the device
// is inside conversations. The socket's last goroutine calls the function when its own context has ended, so the function has a timeout
// of its own. If it fails, the leases expire after chat.Settings.InsideLease.
func (s *Server) deviceGoneHandler(root *resolvers.Resolver) func(services.Viewer) {
	return func(viewer services.Viewer) {
		ctx, cancel := context.WithTimeout(context.Background(), s.Config.Requests.OperationTimeout)
		defer cancel()
		id, known, err := root.Social.FindUser(ctx, viewer.Key)
		if err == nil && known {
			err = root.Chat.EndDeviceLeases(ctx, id, viewer.Device)
		}
		if err != nil {
			s.Log.Warn("the leases of a disconnected device could not be ended; it stays inside its conversations until they expire", "error", err)
		}
	}
}

// forgetUnwatchedUsers removes users who are no longer watched here, from this node's memory and from Redis. The hub calls it in
// batches. After a failure Redis keeps a lease, which expires.
func (s *Server) forgetUnwatchedUsers(ctx context.Context, users []services.UserID) error {
	s.Caches.Changelog.Unfollow(users)
	return s.Redis.Presence.RemoveOnlineLeases(ctx, users)
}
