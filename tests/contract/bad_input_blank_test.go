package contract

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// blankText consists of white space alone, including Unicode spaces of other scripts.
const blankText = " \t\n\u00a0\u2003\u3000"

// textInput is an input with a text field that must not be empty.
type textInput struct {
	mutation    string         // the name of the mutation, and of the event of ingest
	actor       string         // the user who sends the input; "" is the host application without a user
	textField   string         // the text field
	otherFields map[string]any // the other fields of the input
}

// textInputs returns inputs with a text that must not be empty, each valid except for its text.
func (c *smallNode) textInputs() []textInput {
	var made struct {
		Conversation struct{ Conversation struct{ ID string } }
		Show         struct{ Show struct{ ID string } }
	}
	planned := c.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	c.MustAsk("bob", `mutation($p:Time!){
		conversation:createConversation(input:{kind:GROUP,memberIds:["user:alice"]}){conversation{id}}
		show:scheduleShow(input:{title:"t",plannedAt:$p}){show{id}}}`, map[string]any{"p": planned}, &made)
	var created struct {
		Message      struct{ Message struct{ ID string } }
		Announcement struct{ Announcement struct{ ID string } }
	}
	c.MustAsk("host:ingest", `mutation{
		message:sendSiteMessage(input:{title:"t",to:["user:bob"]}){message{id:siteMessageId}}
		announcement:publishAnnouncement(input:{title:"t"}){announcement{id}}}`, nil, &created)
	c.SettleJobsAndCaches()
	return []textInput{
		{"publishPost", "bob", "body", nil},
		{"editPost", "bob", "body", map[string]any{"postId": c.bobsPost}},
		{"sendMessage", "bob", "body", map[string]any{"conversationId": made.Conversation.Conversation.ID}},
		{"scheduleShow", "bob", "title", map[string]any{"plannedAt": planned}},
		{"rescheduleShow", "bob", "title", map[string]any{"showId": made.Show.Show.ID}},
		{"sendSiteMessage", "", "title", map[string]any{"to": []string{"user:bob"}}},
		{"editSiteMessage", "", "title", map[string]any{"siteMessageId": created.Message.Message.ID}},
		{"publishAnnouncement", "", "title", nil},
		{"editAnnouncement", "", "title", map[string]any{"announcementId": created.Announcement.Announcement.ID}},
	}
}

// A text that must not be empty must not be blank either, whether it is sent in a mutation or in an event.
func TestBlankTexts(t *testing.T) {
	c := newSmallNode(t, nil)
	for _, w := range c.textInputs() {
		kind := strings.ToUpper(w.mutation[:1]) + w.mutation[1:] + "Input"
		query := `mutation($v:` + kind + `!){` + w.mutation + `(input:$v){__typename}}`
		as := w.actor
		if as == "" {
			as = "host:ingest"
		}
		input := func(text string) map[string]any {
			all := map[string]any{w.textField: text}
			maps.Copy(all, w.otherFields)
			return all
		}
		for text, says := range map[string]string{"": "got 0", blankText: "nothing but white space"} {
			want := wantedError{"INVALID", []string{w.textField + ": 1 to ", " characters are allowed", says}}
			t.Run(w.mutation+" of "+says, func(t *testing.T) {
				c.wantNoEffect(t, func(t *testing.T) {
					want.checkAnswer(t, c.Ask(as, query, map[string]any{"v": input(text)}))
					event := map[string]any{"do": map[string]any{w.mutation: input(text)}}
					if w.actor != "" {
						event["as"] = "user:" + w.actor
					}
					got := c.ingest(t, event)[0]
					if got.Error == nil || got.Error.Code != want.code || !strings.Contains(got.Error.Message, w.textField+": 1 to ") ||
						!strings.Contains(got.Error.Message, says) {
						t.Errorf("as an event: id %v, error %+v, want %+v", got.ID, got.Error, want)
					}
				})
			})
		}
		if got := c.Ask(as, query, map[string]any{"v": input(blankText + "a" + blankText)}); len(got.Errors) > 0 {
			t.Errorf("%s of a letter between blanks: %+v", w.mutation, got.Errors)
		}
	}
}
