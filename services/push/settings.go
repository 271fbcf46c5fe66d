package push

import "time"

// Settings are the times of the hub. A number that has changed is on an open page within MinSendInterval; if its hint was lost, within
// ReconcileInterval. New takes the default for a time that is zero.
type Settings struct {
	MinSendInterval   time.Duration `name:"push-interval" default:"100ms" placeholder:"DURATION" min:"10ms" max:"10s" help:"the shortest time between two events of one subscription"`
	ReconcileInterval time.Duration `aliases:"sweep-interval" default:"1s" placeholder:"DURATION" min:"100ms" max:"1m" help:"the interval of reconciliation, which compares the open subscriptions with Redis and so finds what a lost hint left behind"`
}
