package push

import (
	"hash/maphash"

	"tidings/services"
)

// hashSeed differs between processes: a hash is compared on one node only.
var hashSeed = maphash.MakeSeed()

// hashVisible returns a hash of the visible part of badges, equal for equal content and never 0. It tells two states of one version
// apart.
func hashVisible(badges *services.Badges) uint64 {
	var hash maphash.Hash
	hash.SetSeed(hashSeed)
	// The hash takes bytes: the parts that clients see, in a fixed order, without versions and times.
	number := func(n uint64) {
		var bytes [8]byte
		for i := range bytes {
			bytes[i] = byte(n >> (8 * i))
		}
		_, _ = hash.Write(bytes[:])
	}
	flag := func(set bool) {
		if set {
			_ = hash.WriteByte(1)
		} else {
			_ = hash.WriteByte(0)
		}
	}
	count := func(count *services.Count) {
		number(uint64(count.Value))
		flag(count.InTotal)
		_ = hash.WriteByte(byte(count.Precision))
		_, _ = hash.WriteString(count.Display)
	}
	// The counts are those of Badges.Parts, and the sums. They are listed here again, because each push makes this hash: through Parts it
	// took 0.9 us, and takes 0.4.
	for _, one := range []*services.Count{
		&badges.Total, &badges.SiteMessages.Total, &badges.Conversations.Total, &badges.Conversations.Mentions, &badges.Notifications.Total,
	} {
		count(one)
	}
	for _, field := range services.CountFields {
		count(field.CountIn(badges))
	}
	for _, category := range services.Categories {
		count(badges.Notifications.Of(category))
		number(uint64(*badges.Notifications.Older.Of(category)))
	}
	for i := range badges.Notifications.HostCounts {
		host := &badges.Notifications.HostCounts[i]
		_, _ = hash.WriteString(host.Name)
		count(&host.Count)
		number(uint64(host.Older))
	}
	number(uint64(badges.Notifications.Newest))
	for i := range badges.SiteMessages.Types {
		count(&badges.SiteMessages.Types[i].Count)
	}
	for _, dot := range badges.Dots {
		_, _ = hash.WriteString(dot.Name)
		flag(dot.Lit)
	}
	flag(badges.Quiet)
	// 0 stands for a user without a rendered state.
	return max(1, hash.Sum64())
}
