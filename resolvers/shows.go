package resolvers

import (
	"context"
	"time"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
)

func (r *Resolver) graphShow(show services.Show, host services.User) graph.Show {
	return graph.Show{
		ID: show.GlobalID(), Key: show.ID, Host: graphUser(host), Title: show.Title, CoverURL: orNull(show.CoverURL), ReplayURL: orNull(show.ReplayURL),
		Status: show.Status, PlannedAt: show.PlannedAt, StartedAt: show.StartedAt, EndedAt: show.EndedAt, CancelledAt: show.CancelledAt,
		Late: show.Late(r.Clock.Now()),
	}
}

// withShow does something with a show as the viewer, and answers it as it is then, with his badges.
func (r *Resolver) withShow(ctx context.Context, key *string, do func(viewer services.UserNumber) (*jobs.Command, error)) (graph.Show, services.Badges, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return graph.Show{}, services.Badges{}, err
	}
	cmd, err := do(viewer.Number)
	if err != nil {
		return graph.Show{}, services.Badges{}, err
	}
	badges, err := r.commit(ctx, viewer, key, cmd)
	if err != nil {
		return graph.Show{}, services.Badges{}, err
	}
	id, err := services.ParseShowID("showId", cmd.IDs()[0])
	if err != nil {
		return graph.Show{}, services.Badges{}, err
	}
	// Memory may be behind when it could not be brought up to date in time.
	shows, err := r.Live.Shows(ctx, []services.PostID{id}, cmd.ViewsStale())
	if err != nil {
		return graph.Show{}, services.Badges{}, err
	}
	dataloader.From(ctx).KeepShows([]services.Show{shows[id]})
	seen, err := r.visible(ctx, viewer.Number, visibleKeys{shows: []services.PostID{id}})
	show, ok := seen.shows[id]
	if err == nil && !ok {
		err = services.Errorf(services.NotFound, "showId: there is no %s", services.GlobalID(services.ShowType, id.String()))
	}
	return r.graphShow(show, seen.people[show.Host]), badges, err
}

// onShow makes a command of a show that is named.
func onShow(id string, make func(show services.PostID) (*jobs.Command, error)) (*jobs.Command, error) {
	show, err := services.ParseShowID("showId", id)
	if err != nil {
		return nil, err
	}
	return make(show)
}

func (r *Resolver) scheduleShow(title string, plannedAt time.Time, coverURL *string) func(services.UserNumber) (*jobs.Command, error) {
	return func(host services.UserNumber) (*jobs.Command, error) {
		return r.Live.Schedule(host, services.ShowDraft{Title: title, PlannedAt: plannedAt, CoverURL: orEmpty(coverURL)}), nil
	}
}

func (r *Resolver) rescheduleShow(id string, edit services.ShowEdit) func(services.UserNumber) (*jobs.Command, error) {
	return func(host services.UserNumber) (*jobs.Command, error) {
		return onShow(id, func(show services.PostID) (*jobs.Command, error) { return r.Live.Reschedule(host, show, edit) })
	}
}

func (r *Resolver) startShow(id string, at *time.Time) func(services.UserNumber) (*jobs.Command, error) {
	return func(host services.UserNumber) (*jobs.Command, error) {
		return onShow(id, func(show services.PostID) (*jobs.Command, error) { return r.Live.Start(host, show, orNow(at)), nil })
	}
}

func (r *Resolver) endShow(id string, at *time.Time, replayURL *string) func(services.UserNumber) (*jobs.Command, error) {
	return func(host services.UserNumber) (*jobs.Command, error) {
		return onShow(id, func(show services.PostID) (*jobs.Command, error) {
			return r.Live.End(host, show, orNow(at), orEmpty(replayURL)), nil
		})
	}
}

func (r *Resolver) cancelShow(id string) func(services.UserNumber) (*jobs.Command, error) {
	return func(host services.UserNumber) (*jobs.Command, error) {
		return onShow(id, func(show services.PostID) (*jobs.Command, error) { return r.Live.Cancel(host, show), nil })
	}
}

func (r *Resolver) setReplay(id, replayURL string) func(services.UserNumber) (*jobs.Command, error) {
	return func(host services.UserNumber) (*jobs.Command, error) {
		return onShow(id, func(show services.PostID) (*jobs.Command, error) { return r.Live.SetReplay(host, show, replayURL), nil })
	}
}

func (r *Resolver) remindMe(id string, remind bool) func(services.UserNumber) (*jobs.Command, error) {
	return func(user services.UserNumber) (*jobs.Command, error) {
		return onShow(id, func(show services.PostID) (*jobs.Command, error) { return r.Live.Remind(user, show, remind), nil })
	}
}

// orNow is a time that may be left out; the zero time is now.
func orNow(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return *at
}

// showEvent is about shows and who wants to be reminded of them.
func (r *Resolver) showEvent(ctx context.Context, event graph.IngestEvent) (*happening, error) {
	switch {
	case event.ScheduleShow != nil:
		said := event.ScheduleShow
		cmd, err := as(ctx, r, said.As, r.scheduleShow(said.Title, said.PlannedAt, said.CoverURL))
		return &happening{cmd, "", said.Key}, err
	case event.RescheduleShow != nil:
		said := event.RescheduleShow
		edit := services.ShowEdit{PlannedAt: said.PlannedAt, Title: said.Title, CoverURL: said.CoverURL}
		cmd, err := as(ctx, r, said.As, r.rescheduleShow(said.ShowID, edit))
		return &happening{cmd, said.ShowID, said.Key}, err
	case event.StartShow != nil:
		said := event.StartShow
		cmd, err := as(ctx, r, said.As, r.startShow(said.ShowID, said.At))
		return &happening{cmd, said.ShowID, said.Key}, err
	case event.EndShow != nil:
		said := event.EndShow
		cmd, err := as(ctx, r, said.As, r.endShow(said.ShowID, said.At, said.ReplayURL))
		return &happening{cmd, said.ShowID, said.Key}, err
	case event.CancelShow != nil:
		said := event.CancelShow
		cmd, err := as(ctx, r, said.As, r.cancelShow(said.ShowID))
		return &happening{cmd, said.ShowID, said.Key}, err
	case event.SetReplay != nil:
		said := event.SetReplay
		cmd, err := as(ctx, r, said.As, r.setReplay(said.ShowID, said.ReplayURL))
		return &happening{cmd, said.ShowID, said.Key}, err
	case event.RemindMe != nil:
		said := event.RemindMe
		cmd, err := as(ctx, r, said.As, r.remindMe(said.ShowID, said.Remind))
		return &happening{cmd, said.ShowID, said.Key}, err
	}
	return nil, nil
}
