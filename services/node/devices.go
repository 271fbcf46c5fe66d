package node

import "tidings/services/devices"

// wireDevices makes the service for Web Push, after the change stream and the webhooks. Without keys the service exists too, and
// refuses devices. If an operator removes the keys, the devices stay in SQL, and work again when the same keys are back.
func (s *Server) wireDevices() {
	s.devices = devices.New(devices.Config{
		DB: s.DB, Stream: s.stream, Online: s.Redis.Presence.UsersWithOpenSubscription, StreamNeeded: s.webhooks.HasEndpoints, Node: s.Config.Node, Clock: s.clock, Log: s.Log,
		Settings: s.Config.Devices,
	})
}
