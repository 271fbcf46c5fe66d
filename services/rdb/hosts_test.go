package rdb

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/redis"
)

// board reads the part of the reader's document that live boards need.
func (v view) board() HostsState {
	v.Helper()
	states, err := v.c.HostsOf(v.Context(), []services.UserID{reader})
	v.must(err)
	return states[0]
}

func TestHostsAreNamedInDocuments(t *testing.T) {
	eachView(t, func(v view) {
		first, second := services.FollowedAuthor{Author: author, Since: 3}, services.FollowedAuthor{Author: other, Since: services.PostID(author)<<32 | services.PostID(author)}
		name := func(stamp redis.Stamp, host services.FollowedAuthor) redis.Result {
			results, err := v.c.MergeNamed(v.Context(), Hosts, stamp, []NamedAdd{{reader, host}})
			v.must(err)
			return results[0]
		}
		want := func(what string, result redis.Result, status redis.Status, hosts ...services.FollowedAuthor) {
			v.Helper()
			document, read := v.document(), v.board()
			if result.Status != status || (result.N > 0) != (status == redis.Applied) || status == redis.Applied && document.N != result.N {
				v.Errorf("%s: %+v, want the status %d", what, result, status)
			}
			if !slices.Equal(sortPulled(document.Hosts), hosts) || !slices.Equal(sortPulled(read.Hosts), hosts) || len(document.Pulled) > 0 {
				v.Errorf("%s: the document has the hosts %v, the board %v, want %v", what, document.Hosts, read.Hosts, hosts)
			}
		}
		if result := name(1, first); result.Status != redis.Missing {
			v.Errorf("into nothing: %+v", result)
		}
		want("born with one", v.build(FeedFacts{Hosts: []services.FollowedAuthor{second}}), redis.Applied, second)
		want("another", name(v.stamp(), first), redis.Applied, first, second)
		want("again", name(v.stamp(), first), redis.Same, first, second)
		first.Since = 9
		want("followed anew", name(v.stamp(), first), redis.Applied, first, second)
		first.Quiet = true
		want("in a mode in which none counts", name(v.stamp(), first), redis.Applied, first, second)
		want("the same mode", name(v.stamp(), first), redis.Same, first, second)
		first.Quiet = false
		want("in another mode", name(v.stamp(), first), redis.Applied, first, second)
		second.Quiet = true
		want("one of two, by a rebuild", v.build(FeedFacts{Hosts: []services.FollowedAuthor{first, second}}), redis.Applied, first, second)
		read := v.stamp()
		want("a drop", v.drop(author), redis.Applied, second)
		want("read before the drop", name(read, first), redis.Retry, second)
		want("dropped again", v.drop(author), redis.Same, second)
		result, err := v.c.MergeIntoInbox(v.Context(), Merge{Reader: reader, Stamp: v.stamp(), Fence: true, Hosts: []services.FollowedAuthor{first}})
		v.must(err)
		want("a follow", result, redis.Applied, first, second)
		want("read before the follow", name(read, services.FollowedAuthor{Author: author}), redis.Retry, first, second)
		want("a rebuild takes nobody out", v.build(FeedFacts{Hosts: []services.FollowedAuthor{second}}), redis.Applied, first, second)
		v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), "L").Err())
		if result := name(v.stamp(), first); result.Status != redis.Missing || v.document().Ready || v.board().Ready {
			v.Errorf("hosts that are lost are %+v after one was named: %+v", v.document(), result)
		}
		want("rebuilt", v.build(FeedFacts{Hosts: []services.FollowedAuthor{second}}), redis.Applied, second)
		results, err := v.c.PutRegisters(v.Context(), []Registers{{reader, []Register{LiveSeenRegister(7)}}})
		v.must(err)
		want("seen", results[0], redis.Applied, second)
		if d, read := v.document(), v.board(); d.LiveSeen != 7 || read.LiveSeen != 7 || read.Day != 20_000 {
			v.Errorf("seen up to %d and %d, on day %d", d.LiveSeen, read.LiveSeen, read.Day)
		}
	})
}

// Among 2,000 hosts, an entry is found and changed or dropped, and the others stay.
func TestOneOfManyFollowedHostsIsChangedOrDropped(t *testing.T) {
	eachView(t, func(v view) {
		var hosts []services.FollowedAuthor
		for i := range 2000 {
			hosts = append(hosts, services.FollowedAuthor{Author: services.UserID(i + 1), Since: services.PostID(1+i%256) << 32})
		}
		v.build(FeedFacts{Hosts: hosts})
		for i := 1; i < len(hosts); i += 333 {
			hosts[i].Since++
			results, err := v.c.MergeNamed(v.Context(), Hosts, v.stamp(), []NamedAdd{{reader, hosts[i]}})
			v.must(err)
			if results[0].Status != redis.Applied {
				v.Errorf("host %d: %+v", hosts[i].Author, results[0])
			}
		}
		for i := 0; i < len(hosts); i += 250 {
			v.drop(hosts[i].Author)
			hosts = slices.Delete(hosts, i, i+1)
		}
		v.build(FeedFacts{Hosts: hosts[100:1000]})
		if difference := cmp.Diff(hosts, sortPulled(v.document().Hosts)); difference != "" {
			v.Error(difference)
		}
	})
}
