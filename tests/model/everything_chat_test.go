package model

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"tidings/tests/world"
)

// conversationModel is the part of allSourcesModel for the one conversation of all people, and for the host application's site messages.
type conversationModel struct {
	id       string
	messages []*chatMessage  // in the order of the conversation
	readUpTo map[string]int  // person -> the number of messages up to their read position
	mutedBy  map[string]bool // person -> whether they muted the conversation

	siteMessages []*siteMessage // those of the host application, which are in no conversation
}

// chatMessage is a message of the conversation in the model.
type chatMessage struct {
	id, author, mentionedPerson string // mentionedPerson is "" without a mention
	recalled                    bool
}

// siteMessage is a site message in the model.
type siteMessage struct {
	id         string
	recipients map[string]bool // the people that it was sent to
	readBy     map[string]bool // person -> whether they read it
}

// startConversation creates the group conversation of all people of the model.
func (e *allSourcesModel) startConversation() {
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	others := make([]string, len(e.People)-1)
	for i, person := range e.People[1:] {
		others[i] = fmt.Sprintf("%q", "user:"+person)
	}
	e.Node.MustAsk(e.People[0], `mutation{createConversation(input:{kind:GROUP,title:"talk",memberIds:[`+strings.Join(others, ",")+`]}){conversation{id}}}`, nil, &data)
	e.conversation = conversationModel{id: data.CreateConversation.Conversation.ID, readUpTo: map[string]int{}, mutedBy: map[string]bool{}}
}

// sendMessage sends a message to the conversation, which for its author also marks the conversation as read up to this message.
func (e *allSourcesModel) sendMessage(t *rapid.T) {
	author, mentioned := e.DrawPerson(t, "author"), e.DrawPerson(t, "mentioned")
	mentions := ""
	if rapid.Bool().Draw(t, "mentions") && mentioned != author {
		mentions = fmt.Sprintf(",mentionIds:[%q]", "user:"+mentioned)
	} else {
		mentioned = ""
	}
	var data struct {
		SendMessage struct{ Message struct{ ID string } }
	}
	e.Node.MustAsk(author, fmt.Sprintf(`mutation{sendMessage(input:{conversationId:%q,body:"hm"%s}){message{id}}}`, e.conversation.id, mentions), nil, &data)
	e.conversation.messages = append(e.conversation.messages, &chatMessage{id: data.SendMessage.Message.ID, author: author, mentionedPerson: mentioned})
	e.conversation.readUpTo[author] = len(e.conversation.messages)
	e.JobsPending = true
}

// recallMessage lets the author of a random message take it back, so that it no longer counts.
func (e *allSourcesModel) recallMessage(t *rapid.T) {
	if len(e.conversation.messages) == 0 {
		return
	}
	if one := rapid.SampledFrom(e.conversation.messages).Draw(t, "message"); !one.recalled {
		e.Node.MustAsk(one.author, fmt.Sprintf(`mutation{recallMessage(input:{messageId:%q}){badges{version}}}`, one.id), nil, nil)
		one.recalled, e.JobsPending = true, true
	}
}

// markConversationRead marks the conversation read up to a message, which may have been read before.
func (e *allSourcesModel) markConversationRead(t *rapid.T) {
	if len(e.conversation.messages) == 0 {
		return
	}
	person, position := e.DrawPerson(t, "person"), rapid.IntRange(1, len(e.conversation.messages)).Draw(t, "position")
	e.Node.MustAsk(person, fmt.Sprintf(`mutation{markConversationRead(input:{conversationId:%q,upTo:%q}){badges{version}}}`, e.conversation.id, e.conversation.messages[position-1].id), nil, nil)
	e.conversation.readUpTo[person] = max(e.conversation.readUpTo[person], position)
}

// muteConversation mutes the conversation for a person, or ends the mute.
func (e *allSourcesModel) muteConversation(t *rapid.T) {
	person, muted := e.DrawPerson(t, "person"), rapid.Bool().Draw(t, "muted")
	e.Node.MustAsk(person, fmt.Sprintf(`mutation{%s(input:{conversationId:%q}){badges{version}}}`, map[bool]string{true: "muteConversation", false: "unmuteConversation"}[muted], e.conversation.id), nil, nil)
	e.conversation.mutedBy[person] = muted
}

// unreadMessages returns the expected counts of the conversation: all unread messages, and the unread messages that mention the
// person.
func (e *allSourcesModel) unreadMessages(person string) (unread, mentions int) {
	for i, one := range e.conversation.messages {
		if i >= e.conversation.readUpTo[person] && one.author != person && !one.recalled {
			unread++
			if one.mentionedPerson == person {
				mentions++
			}
		}
	}
	return unread, mentions
}

// sendSiteMessage sends a site message to some people.
func (e *allSourcesModel) sendSiteMessage(t *rapid.T) {
	one := &siteMessage{recipients: map[string]bool{}, readBy: map[string]bool{}}
	var to []string
	for _, person := range rapid.SliceOfNDistinct(rapid.SampledFrom(e.People), 1, len(e.People), rapid.ID[string]).Draw(t, "to") {
		one.recipients[person] = true
		to = append(to, fmt.Sprintf("%q", "user:"+person))
	}
	var data struct {
		SendSiteMessage struct{ Message struct{ ID string } }
	}
	e.sendAsHost(`mutation{sendSiteMessage(input:{title:"hello",to:[`+strings.Join(to, ",")+`]}){message{id:siteMessageId}}}`, &data)
	one.id = data.SendSiteMessage.Message.ID
	e.conversation.siteMessages = append(e.conversation.siteMessages, one)
	e.Node.SettleJobsAndCaches() // a message can be marked once it is delivered
	e.JobsPending = false
}

// markSiteMessage marks a site message as read or as unread.
func (e *allSourcesModel) markSiteMessage(t *rapid.T) {
	if len(e.conversation.siteMessages) == 0 {
		return
	}
	one, person, read := rapid.SampledFrom(e.conversation.siteMessages).Draw(t, "message"), e.DrawPerson(t, "person"), rapid.Bool().Draw(t, "read")
	if !one.recipients[person] {
		return
	}
	verb := map[bool]string{true: "markSiteMessagesRead", false: "markSiteMessagesUnread"}[read]
	e.Node.MustAsk(person, fmt.Sprintf(`mutation{%s(input:{ids:[%q]}){badges{version}}}`, verb, one.id), nil, nil)
	one.readBy[person] = read
}

// unreadSiteMessages returns the number of site messages that a person has not read.
func (e *allSourcesModel) unreadSiteMessages(person string) (count int) {
	for _, one := range e.conversation.siteMessages {
		if one.recipients[person] && !one.readBy[person] {
			count++
		}
	}
	return count
}

// compareConversation compares a person's conversations and site messages with the model.
func (e *allSourcesModel) compareConversation(t *rapid.T, person string, got world.Badges) {
	unread, mentions := e.unreadMessages(person)
	if e.conversation.mutedBy[person] {
		unread = mentions
	}
	if got.Conversations.Total.Value != unread || got.Conversations.Mentions.Value != mentions {
		t.Fatalf("%s: conversations %+v, want %d and %d mentions", person, got.Conversations, unread, mentions)
	}
	if want := e.unreadSiteMessages(person); got.SiteMessages.Total.Value != want {
		t.Fatalf("%s: site messages %+v, want %d", person, got.SiteMessages.Total, want)
	}
}
