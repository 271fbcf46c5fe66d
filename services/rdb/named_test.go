package rdb

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/redis"
)

// hostsState reads the part of the reader's document that live boards need.
func (v feedTest) hostsState() LiveBoardState {
	v.Helper()
	states, err := v.projections.ReadLiveBoardStates(v.Context(), []services.UserID{reader})
	v.must(err)
	return states[0]
}

// A document lists the hosts that the reader follows, after follows, rebuilds, drops and losses.
func TestDocumentsListTheFollowedHosts(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		first, second := services.FollowedAuthor{Author: author, ItemsCountAfter: 3}, services.FollowedAuthor{Author: otherUser, ItemsCountAfter: services.SortableID(author)<<32 | services.SortableID(author)}
		name := func(stamp redis.ClockStamp, host services.FollowedAuthor) redis.Result {
			results, err := v.projections.MergeAuthors(v.Context(), HostsField, stamp, []AuthorAddition{{reader, host}})
			v.must(err)
			return results[0]
		}
		want := func(what string, result redis.Result, status redis.ResultStatus, hosts ...services.FollowedAuthor) {
			v.Helper()
			document, read := v.readDocument(), v.hostsState()
			if result.Status != status || (result.Version > 0) != (status == redis.Applied) || status == redis.Applied && document.Version != result.Version {
				v.Errorf("%s: %+v, want the status %d", what, result, status)
			}
			if !slices.Equal(sortedByAuthor(document.Hosts), hosts) || !slices.Equal(sortedByAuthor(read.Hosts), hosts) || len(document.PulledAuthors) > 0 {
				v.Errorf("%s: the document has the hosts %v, the board %v, want %v", what, document.Hosts, read.Hosts, hosts)
			}
		}
		if result := name(1, first); result.Status != redis.Missing {
			v.Errorf("into nothing: %+v", result)
		}
		want("born with one", v.buildFromFacts(FeedFacts{Hosts: []services.FollowedAuthor{second}}), redis.Applied, second)
		want("another", name(v.takeStamp(), first), redis.Applied, first, second)
		want("again", name(v.takeStamp(), first), redis.Unchanged, first, second)
		first.ItemsCountAfter = 9
		want("followed anew", name(v.takeStamp(), first), redis.Applied, first, second)
		first.CountsNothing = true
		want("in a mode in which none counts", name(v.takeStamp(), first), redis.Applied, first, second)
		want("the same mode", name(v.takeStamp(), first), redis.Unchanged, first, second)
		first.CountsNothing = false
		want("in another mode", name(v.takeStamp(), first), redis.Applied, first, second)
		second.CountsNothing = true
		want("one of two, by a rebuild", v.buildFromFacts(FeedFacts{Hosts: []services.FollowedAuthor{first, second}}), redis.Applied, first, second)
		read := v.takeStamp()
		want("a drop", v.dropAuthor(author), redis.Applied, second)
		want("read before the drop", name(read, first), redis.Retry, second)
		want("dropped again", v.dropAuthor(author), redis.Unchanged, second)
		result, err := v.projections.MergeIntoInbox(v.Context(), InboxMerge{Reader: reader, Stamp: v.takeStamp(), RefuseEarlierReads: true, Hosts: []services.FollowedAuthor{first}})
		v.must(err)
		want("a follow", result, redis.Applied, first, second)
		want("read before the follow", name(read, services.FollowedAuthor{Author: author}), redis.Retry, first, second)
		want("a rebuild takes nobody out", v.buildFromFacts(FeedFacts{Hosts: []services.FollowedAuthor{second}}), redis.Applied, first, second)
		v.must(v.projections.Client.Commands().HDel(v.Context(), DocumentKey(reader), "L").Err())
		if result := name(v.takeStamp(), first); result.Status != redis.Missing || v.readDocument().Ready || v.hostsState().Ready {
			v.Errorf("hosts that are lost are %+v after one was named: %+v", v.readDocument(), result)
		}
		want("rebuilt", v.buildFromFacts(FeedFacts{Hosts: []services.FollowedAuthor{second}}), redis.Applied, second)
		results, err := v.projections.PutVersionedFields(v.Context(), []VersionedFields{{reader, []VersionedField{LiveSeenVersionedField(7)}}})
		v.must(err)
		want("seen", results[0], redis.Applied, second)
		if d, read := v.readDocument(), v.hostsState(); d.LiveSeenUpTo != 7 || read.LiveSeenUpTo != 7 || read.LastActiveDay != 20_000 {
			v.Errorf("seen up to %d and %d, on day %d", d.LiveSeenUpTo, read.LiveSeenUpTo, read.LastActiveDay)
		}
	})
}

// Among 2,000 hosts, an entry is found and changed or dropped, and the others stay.
func TestOneOfManyFollowedHostsIsChangedOrDropped(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		var hosts []services.FollowedAuthor
		for i := range 2000 {
			hosts = append(hosts, services.FollowedAuthor{Author: services.UserID(i + 1), ItemsCountAfter: services.SortableID(1+i%256) << 32})
		}
		v.buildFromFacts(FeedFacts{Hosts: hosts})
		for i := 1; i < len(hosts); i += 333 {
			hosts[i].ItemsCountAfter++
			results, err := v.projections.MergeAuthors(v.Context(), HostsField, v.takeStamp(), []AuthorAddition{{reader, hosts[i]}})
			v.must(err)
			if results[0].Status != redis.Applied {
				v.Errorf("host %d: %+v", hosts[i].Author, results[0])
			}
		}
		for i := 0; i < len(hosts); i += 250 {
			v.dropAuthor(hosts[i].Author)
			hosts = slices.Delete(hosts, i, i+1)
		}
		v.buildFromFacts(FeedFacts{Hosts: hosts[100:1000]})
		if difference := cmp.Diff(hosts, sortedByAuthor(v.readDocument().Hosts)); difference != "" {
			v.Error(difference)
		}
	})
}
