package node

import (
	"tidings/services/devices"
	"tidings/services/outbound"
)

// wireDevices makes the service for Web Push, after the change stream and the webhooks. Without keys the service exists too, and
// refuses devices. If an operator removes the keys, the devices stay in SQL, and work again when the same keys are back.
func (s *Server) wireDevices() {
	keys, cfg := devices.VAPIDKeys{}, s.Config
	if cfg.VAPIDPrivateKey != "" {
		keys, _ = devices.ParseVAPIDKeys(cfg.VAPIDPrivateKey, cfg.VAPIDSubject) // checked with the settings, as is the next
	}
	allow, _ := outbound.ParseNetworks(cfg.WebPushAllow)
	s.devices = devices.New(devices.Config{
		DB: s.Store, Stream: s.stream, Online: s.Redis.Presence.UsersWithOpenSubscription, StreamNeeded: s.webhooks.HasEndpoints, Keys: keys, Node: cfg.Node, Clock: s.clock, Log: s.Log,
		OnlyAway: cfg.WebPushAway, Allow: allow, Timeout: cfg.WebPushTimeout, RequestsPerService: cfg.WebPushRequests,
	})
}
