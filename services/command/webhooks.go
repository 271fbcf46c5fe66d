package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"tidings/services"
	"tidings/services/acts"
	"tidings/services/node"
	"tidings/services/stream"
	"tidings/services/webhooks"
)

// webhookOptions are the options of "tidings webhooks" besides the settings of a node. The tag `for` of an option names the
// acts that take it.
type webhookOptions struct {
	Name      string        `kong:"-"` // of the endpoint; "" for all
	URL       string        `kong:"-"` // the address to send events to
	Away      bool          `group:"Webhooks:" for:"webhooks add" help:"send only what concerns users without an open socket; those who have one get theirs after they closed it"`
	Totals    bool          `for:"webhooks add" help:"send only changes of the total, of quiet hours, and what alerts, without the counts behind the total"`
	Sources   []string      `for:"webhooks add" placeholder:"LIST" words:"${sources}" help:"send only changes of these sources or of their parts, separated by commas: CONVERSATIONS,NOTIFICATIONS:MENTION; empty: of all"`
	FromStart bool          `for:"webhooks add" help:"send everybody's present state first, silently; otherwise only what changes from now on"`
	Overlap   time.Duration `for:"webhooks rotate" default:"24h" placeholder:"DURATION" min:"0s" max:"720h" help:"the time for which the secrets before sign beside the new one; 0s: not at all"`
	ForUser   string        `name:"user" for:"webhooks replay" placeholder:"KEY" help:"the user whose dead letter is sent again; empty: all"`
}

// webhookArgs are the act and its arguments. webhookArgCounts has how many arguments an act takes. There is one type for all
// acts: kong would otherwise need a command for each, with the same arguments.
type webhookArgs struct {
	What string `arg:"" words:"add list remove rotate test status dead replay" help:"add, list, remove, rotate, test, status, dead or replay"`
	Name string `arg:"" optional:"" help:"the name of the webhook; list needs none, and status without one shows all"`
	URL  string `arg:"" optional:"" help:"the address to send events to, for add"`
}

// webhookArgCounts are the acts of "tidings webhooks", with the least and the greatest number of arguments: NAME and URL.
var webhookArgCounts = map[string]struct{ least, most int }{
	"add": {2, 2}, "list": {0, 0}, "remove": {1, 1}, "rotate": {1, 1}, "test": {1, 1}, "status": {0, 1}, "dead": {1, 1}, "replay": {1, 1},
}

// checkWebhooks is the fault of the words of "tidings webhooks"; nil if there is none. An argument that is "" counts as
// missing. kong lets both arguments be missing, because some acts need none.
func checkWebhooks(words webhookArgs) error {
	act, known := webhookArgCounts[words.What]
	// An unset variable of a script gives "", and must not pass for a name.
	given := slices.DeleteFunc([]string{words.Name, words.URL}, func(word string) bool { return word == "" })
	switch {
	case !known:
		return fmt.Errorf("%s is not an act of tidings webhooks: add, list, remove, rotate, test, status, dead and replay are", services.Quote(words.What))
	case len(given) > act.most:
		return fmt.Errorf("%s is too much for tidings webhooks %s", services.Quote(given[act.most]), words.What)
	case len(given) == 0 && act.least > 0:
		return fmt.Errorf("tidings webhooks %s needs the name of the webhook", words.What)
	case len(given) < act.least:
		return errors.New("tidings webhooks add needs the address after the name")
	}
	return nil
}

const (
	// maxListedLetters is how many letters "webhooks dead" lists at most. A thousand lines are more than a person reads: an
	// operator who sees as many replays all.
	maxListedLetters     = 1000
	webhookTestExtraTime = 5 * time.Second // how much longer than the timeout of its request "webhooks test" may take
)

// runWebhooks runs "tidings webhooks" on the database. The error is the reason of a failure. Running nodes find what it
// changed in the database. It needs no node and no Redis: endpoints, letters and their state are rows.
func runWebhooks(ctx context.Context, command Command, out io.Writer) (err error) {
	cfg := command.Config
	db, _, err := openExisting(ctx, cfg.DatabaseURL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// These are the services of a node without the loops that deliver: only a test sends anything from here.
	changes := stream.New(stream.Config{DB: db, Settings: cfg.Stream})
	hooks := webhooks.New(node.WebhookConfig(cfg, db, changes))
	act := strings.TrimPrefix(command.Name, "webhooks ")
	// A test must end by itself, even if the receiver does not answer. Other acts have no such bound: a replay may have many letters.
	if act == "test" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cfg.Webhooks.Timeout+webhookTestExtraTime)
		defer cancel()
	}
	do := func(ctx context.Context) error { return actOnWebhooks(ctx, hooks, act, command.Webhooks, out) }
	if slices.Contains(readOnlyWebhookActs, act) {
		return do(ctx)
	}
	// Anyone who has access to the database can run this command, so the act has no actor by name.
	kept := acts.New(acts.Config{DB: db, IDs: services.NewIDClock(services.SystemClock{}, uint16(rand.Uint32()))})
	return kept.Do(ctx, acts.Act{Action: "tidings " + command.Name, Target: command.Webhooks.Name}, do)
}

// readOnlyWebhookActs are the acts that only read. They are not recorded.
var readOnlyWebhookActs = []string{"list", "status", "dead"}

// actOnWebhooks runs one act and prints its outcome. A secret stands alone on the first line, so that a script can take it.
// The mutations of the same names call the same methods.
func actOnWebhooks(ctx context.Context, hooks *webhooks.Service, act string, o webhookOptions, out io.Writer) error {
	report := func(format string, args ...any) error {
		_, err := fmt.Fprintf(out, format, args...)
		return err
	}
	switch act {
	// The secret is printed once: it is stored so that it can sign, and no command shows it again.
	case "add":
		secret, err := hooks.Add(ctx, webhooks.NewEndpoint{
			Name: o.Name, URL: o.URL, Filter: webhooks.Filter{OnlyAway: o.Away, OnlyTotals: o.Totals, Sources: o.Sources}, FromStart: o.FromStart,
		})
		if err != nil {
			return err
		}
		return report("%s\nThis secret verifies the events of %s. It is not shown again.\n", secret, o.Name)
	// As with add, the new secret is printed this once. A receiver must know it before the overlap ends.
	case "rotate":
		secret, err := hooks.RotateSecret(ctx, o.Name, o.Overlap)
		if err != nil {
			return err
		}
		return report("%s\nThe secrets before sign beside it for %s. It is not shown again.\n", secret, o.Overlap)
	// The events that wait for the endpoint are dropped too.
	case "remove":
		if err := hooks.Remove(ctx, o.Name); err != nil {
			return err
		}
		return report("%s is removed\n", o.Name)
	// A test that the receiver refused is a failure of the command, for scripts.
	case "test":
		tested, err := hooks.Test(ctx, o.Name)
		if err != nil {
			return err
		}
		if tested.Error != "" {
			return fmt.Errorf("the test of %s failed after %s: %s", o.Name, tested.Took.Round(time.Millisecond), tested.Error)
		}
		return report("the receiver answered %d after %s\n", tested.Status, tested.Took.Round(time.Millisecond))
	case "replay":
		// Nodes deliver the letters: this process only makes them due.
		replayed, err := hooks.ReplayDeadLetters(ctx, o.Name, o.ForUser)
		if err != nil {
			return err
		}
		return report("%d dead letters are sent again\n", replayed)
	case "dead":
		// The name is required, because the lines do not name their endpoint.
		return printDeadLetters(ctx, hooks, o.Name, out)
	}
	// Only list and status remain: a line for each endpoint, or everything that is known of it.
	list, err := hooks.Endpoints(ctx, o.Name)
	if err == nil && o.Name != "" && len(list) == 0 {
		err = services.Errorf(services.NotFound, "there is no webhook %s", services.Quote(o.Name))
	}
	if err != nil {
		return err
	}
	return printWebhooks(list, act == "status", time.Now(), out)
}

// printWebhooks prints a table, or a paragraph for each endpoint if whole. now is for the age of the oldest event. A
// paragraph has everything that is known, in the order in which one looks for a fault: is it on, is it behind, what was the
// last error.
func printWebhooks(list []webhooks.Endpoint, whole bool, now time.Time, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	// A table has a line for each endpoint; a paragraph has two columns. The columns of all endpoints are aligned together.
	for i, e := range list {
		if !whole {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", e.Name, e.State(), e.Filter, e.URL)
			continue
		}
		if i > 0 {
			fmt.Fprintln(table)
		}
		lines := [][2]string{
			{e.Name, e.State()}, {"  address", e.URL}, {"  events", e.Filter.String()}, {"  secrets", fmt.Sprint(e.SigningSecrets)},
			{"  delivered", fmt.Sprint(e.DeliveredEvents)}, {"  waiting", fmt.Sprintf("%d users", e.WaitingUsers)}, {"  dead", fmt.Sprintf("%d users", e.DeadLetters)},
			{"  behind", ageText(e.OldestUnsentAt, now)}, {"  last success", timeText(e.LastSuccessAt)}, {"  last failure", strings.TrimSpace(timeText(e.LastFailureAt) + " " + e.LastError)},
		}
		// The node is shown only while it delivers to the endpoint.
		if e.HasDeliverer {
			lines = append(lines, [2]string{"  delivered by", e.Node})
		}
		// A time to try again means something only while deliveries are held back.
		if e.Down() {
			lines = append(lines, [2]string{"  tried again", timeText(e.RetryAt)})
		}
		for _, line := range lines {
			fmt.Fprintf(table, "%s\t%s\n", line[0], line[1])
		}
	}
	return table.Flush()
}

// printDeadLetters prints the users whose newest change was given up, the newest first, at most maxListedLetters of them.
func printDeadLetters(ctx context.Context, hooks *webhooks.Service, name string, out io.Writer) error {
	list, err := hooks.DeadLetters(ctx, name, maxListedLetters)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, letter := range list {
		fmt.Fprintf(table, "%s\t%s\t%d attempts\t%s\t%s\n", timeText(letter.DeadAt), stream.VersionText(letter.LastTriedSeq), letter.Attempts, letter.Error, letter.UserKey)
	}
	if len(list) == maxListedLetters {
		fmt.Fprintf(table, "These are the newest %d.\n", maxListedLetters)
	}
	return table.Flush()
}

// timeText is a time for people; the zero time means never. It is in UTC and in one width, so that lines can be compared by eye
// and by sort.
func timeText(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.UTC().Format(time.RFC3339)
}

// ageText is the age of the oldest change that waits, as text. It is 0 and not negative if this machine's clock is behind that of the
// node that made the change.
func ageText(since, now time.Time) string {
	if since.IsZero() {
		return "nothing"
	}
	return max(0, now.Sub(since)).Round(time.Second).String()
}

// Help is the text of tidings webhooks --help above its flags.
func (webhookArgs) Help() string {
	return `Examples:

  tidings webhooks add push https://example.com/tidings --away
  tidings webhooks add icons https://example.com/icons --totals --from-start
  tidings webhooks test push
  tidings webhooks rotate push --overlap 48h
  tidings webhooks status
  tidings webhooks dead push
  tidings webhooks replay push --user alice

A webhook gets the changes of users' badges as they come, signed by the Standard Webhooks specification. Its name is up to 40 of
a-z, 0-9 and -. add and rotate print the secret, once. list prints a line for each webhook, status all that is known of each. test
sends one event from this machine now. dead lists the users whose newest change was not accepted within a day; replay sends it
again, and goes on with a receiver that had answered 410 Gone.

Give it the database of your servers, --webhooks-allow and --changes as they have them: events are made from the change stream, and a
webhook is refused while it is off. On SQLite the server must not run at the same time: the mutations addWebhook, testWebhook and so
on do the same while it does.
`
}
