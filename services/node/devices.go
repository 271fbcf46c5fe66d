package node

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

// deviceCollector counts the devices at each scrape. Without keys there are no counts. The counts are of the whole database, so
// each node shows the same numbers. One statement serves all seven metrics.
type deviceCollector struct {
	enabled func() bool                                       // whether this node sends Web Push: it has the keys
	count   func(ctx context.Context) (devices.Counts, error) // devices.Service.Counts
	now     func() time.Time
}

var (
	devicesRegistered = prometheus.NewDesc("tidings_devices", "Devices that are registered for Web Push.", nil, nil)
	devicesWaiting    = prometheus.NewDesc("tidings_devices_waiting", "Devices that have not got their user's newest change.", nil, nil)
	devicesDead       = prometheus.NewDesc("tidings_devices_dead", "Devices that failed for a day, and wait for their user's next change.", nil, nil)
	devicesLag        = prometheus.NewDesc("tidings_devices_lag_seconds", "Time since the oldest message to a device was due.", nil, nil)
	devicesDelivered  = prometheus.NewDesc("tidings_devices_delivered_total", "Messages that push services accepted, from all nodes.", nil, nil)
	devicesFailed     = prometheus.NewDesc("tidings_devices_failed_total", "Requests to push services that failed, from all nodes.", nil, nil)
	devicesRemoved    = prometheus.NewDesc("tidings_devices_removed_total", "Devices that their push service did not know any more.", nil, nil)
)

// Describe names the metrics.
func (c *deviceCollector) Describe(out chan<- *prometheus.Desc) {
	for _, metric := range []*prometheus.Desc{devicesRegistered, devicesWaiting, devicesDead, devicesLag, devicesDelivered, devicesFailed, devicesRemoved} {
		out <- metric
	}
}

// Collect reads the metrics; while SQL does not answer there are none. Alarms can detect an absent metric, while a 0 would
// say that all is well. A second is enough for the statement, and well below the timeout of a scrape.
func (c *deviceCollector) Collect(out chan<- prometheus.Metric) {
	if !c.enabled() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	counts, err := c.count(ctx)
	if err != nil {
		return
	}
	lag := 0.0
	if !counts.OldestDueAt.IsZero() {
		lag = max(0, c.now().Sub(counts.OldestDueAt).Seconds())
	}
	// Values that can fall.
	for metric, value := range map[*prometheus.Desc]float64{
		devicesRegistered: float64(counts.Registered), devicesWaiting: float64(counts.Waiting), devicesDead: float64(counts.Dead), devicesLag: lag,
	} {
		out <- prometheus.MustNewConstMetric(metric, prometheus.GaugeValue, value)
	}
	// These values only rise: they are rows in SQL, so no restart resets them.
	for metric, value := range map[*prometheus.Desc]int{devicesDelivered: counts.DeliveredMessages, devicesFailed: counts.FailedRequests, devicesRemoved: counts.RemovedDevices} {
		out <- prometheus.MustNewConstMetric(metric, prometheus.CounterValue, float64(value))
	}
}
