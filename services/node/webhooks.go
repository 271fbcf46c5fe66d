package node

import (
	"tidings/services"
	"tidings/services/sql"
	"tidings/services/stream"
	"tidings/services/webhooks"
)

// WebhookConfig is the part of a webhooks service that the settings give, for a node and for the command line. The command line has
// no node: without Online the service can test and manage webhooks, and delivers nothing.
func WebhookConfig(cfg Config, db *sql.DB, changes *stream.Service) webhooks.Config {
	return webhooks.Config{
		DB: db, Stream: changes, Node: cfg.Node, SiteMessageTypes: cfg.Messages.Types, Clock: services.SystemClock{},
		Settings: cfg.Webhooks,
	}
}

// wireWebhooks makes the webhooks, after the change stream. Only a node can tell who is online.
func (s *Server) wireWebhooks() {
	cfg := WebhookConfig(s.Config, s.DB, s.stream)
	cfg.Online, cfg.Clock, cfg.Log = s.Redis.Presence.UsersWithOpenSubscription, s.clock, s.Log
	s.webhooks = webhooks.New(cfg)
}
