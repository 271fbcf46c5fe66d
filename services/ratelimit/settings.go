package ratelimit

// Settings are the settings of the budgets.
type Settings struct {
	Budgets []string `name:"rate-limits" placeholder:"LIST" help:"the budgets a minute of one user, host application or address, on all nodes together: WRITES=600,FOLLOWS=120; 0 means no limit, and off alone removes all limits; docs/limits.md lists the budgets and their defaults"`
}

// Faults returns the reasons why settings are invalid, by flag.
func (s Settings) Faults() map[string]string {
	_, reason := parse(s.Budgets)
	return map[string]string{"rate-limits": reason}
}

// Limits are the budgets with their defaults. Faults has checked them.
func (s Settings) Limits() Limits {
	limits, _ := parse(s.Budgets)
	return limits
}
