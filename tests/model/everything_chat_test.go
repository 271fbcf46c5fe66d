package model

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"tidings/tests/world"
)

// talk is the model of a world's one conversation and of the host application's site messages.
type talk struct {
	id       string
	messages []*chatMessage  // the messages of the conversation
	read     map[string]int  // person -> messages up to their read position
	muted    map[string]bool // person -> whether they muted the conversation

	siteMessages []*siteMessage // the site messages
}

type chatMessage struct {
	id, author, mentioned string
	recalled              bool
}

type siteMessage struct {
	id   string
	to   map[string]bool
	read map[string]bool // person -> whether they read it
}

func (e *everything) startTalk() {
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	others := make([]string, len(e.People)-1)
	for i, person := range e.People[1:] {
		others[i] = fmt.Sprintf("%q", "user:"+person)
	}
	e.N.Must(e.People[0], `mutation{createConversation(input:{kind:GROUP,title:"talk",memberIds:[`+strings.Join(others, ",")+`]}){conversation{id}}}`, nil, &data)
	e.talk = talk{id: data.CreateConversation.Conversation.ID, read: map[string]int{}, muted: map[string]bool{}}
}

// say sends a message. This marks the conversation read up to the message for its author.
func (e *everything) say(t *rapid.T) {
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
	e.N.Must(author, fmt.Sprintf(`mutation{sendMessage(input:{conversationId:%q,body:"hm"%s}){message{id}}}`, e.talk.id, mentions), nil, &data)
	e.talk.messages = append(e.talk.messages, &chatMessage{id: data.SendMessage.Message.ID, author: author, mentioned: mentioned})
	e.talk.read[author] = len(e.talk.messages)
	e.JobsPending = true
}

func (e *everything) recall(t *rapid.T) {
	if len(e.talk.messages) == 0 {
		return
	}
	if one := rapid.SampledFrom(e.talk.messages).Draw(t, "message"); !one.recalled {
		e.N.Must(one.author, fmt.Sprintf(`mutation{recallMessage(input:{messageId:%q}){badges{version}}}`, one.id), nil, nil)
		one.recalled, e.JobsPending = true, true
	}
}

// readTalk marks the conversation read up to a message, which may have been read before.
func (e *everything) readTalk(t *rapid.T) {
	if len(e.talk.messages) == 0 {
		return
	}
	person, place := e.DrawPerson(t, "person"), rapid.IntRange(1, len(e.talk.messages)).Draw(t, "place")
	e.N.Must(person, fmt.Sprintf(`mutation{markConversationRead(input:{conversationId:%q,upTo:%q}){badges{version}}}`, e.talk.id, e.talk.messages[place-1].id), nil, nil)
	e.talk.read[person] = max(e.talk.read[person], place)
}

// mute mutes the conversation for a person, or ends the mute.
func (e *everything) mute(t *rapid.T) {
	person, muted := e.DrawPerson(t, "person"), rapid.Bool().Draw(t, "muted")
	e.N.Must(person, fmt.Sprintf(`mutation{%s(input:{conversationId:%q}){badges{version}}}`, map[bool]string{true: "muteConversation", false: "unmuteConversation"}[muted], e.talk.id), nil, nil)
	e.talk.muted[person] = muted
}

// unreadTalk returns the expected counts of the conversation: all unread messages, and the unread messages that mention the
// person.
func (e *everything) unreadTalk(person string) (unread, mentions int) {
	for i, one := range e.talk.messages {
		if i >= e.talk.read[person] && one.author != person && !one.recalled {
			unread++
			if one.mentioned == person {
				mentions++
			}
		}
	}
	return unread, mentions
}

// sendSiteMessage sends a site message to some people.
func (e *everything) sendSiteMessage(t *rapid.T) {
	one := &siteMessage{to: map[string]bool{}, read: map[string]bool{}}
	var to []string
	for _, person := range rapid.SliceOfNDistinct(rapid.SampledFrom(e.People), 1, len(e.People), rapid.ID[string]).Draw(t, "to") {
		one.to[person] = true
		to = append(to, fmt.Sprintf("%q", "user:"+person))
	}
	var data struct {
		SendSiteMessage struct{ Message struct{ ID string } }
	}
	e.sendAsHost(`mutation{sendSiteMessage(input:{title:"hello",to:[`+strings.Join(to, ",")+`]}){message{id:siteMessageId}}}`, &data)
	one.id = data.SendSiteMessage.Message.ID
	e.talk.siteMessages = append(e.talk.siteMessages, one)
	e.N.Settle() // a message can be marked once it is delivered
	e.JobsPending = false
}

// markSiteMessage marks a site message as read or as unread.
func (e *everything) markSiteMessage(t *rapid.T) {
	if len(e.talk.siteMessages) == 0 {
		return
	}
	one, person, read := rapid.SampledFrom(e.talk.siteMessages).Draw(t, "message"), e.DrawPerson(t, "person"), rapid.Bool().Draw(t, "read")
	if !one.to[person] {
		return
	}
	verb := map[bool]string{true: "markSiteMessagesRead", false: "markSiteMessagesUnread"}[read]
	e.N.Must(person, fmt.Sprintf(`mutation{%s(input:{ids:[%q]}){badges{version}}}`, verb, one.id), nil, nil)
	one.read[person] = read
}

// unreadSiteMessages returns the number of site messages that a person has not read.
func (e *everything) unreadSiteMessages(person string) (count int) {
	for _, one := range e.talk.siteMessages {
		if one.to[person] && !one.read[person] {
			count++
		}
	}
	return count
}

// compareTalk compares a person's conversations and site messages with the model.
func (e *everything) compareTalk(t *rapid.T, person string, got world.Badges) {
	unread, mentions := e.unreadTalk(person)
	if e.talk.muted[person] {
		unread = mentions
	}
	if got.Conversations.Total.Value != unread || got.Conversations.Mentions.Value != mentions {
		t.Fatalf("%s: conversations %+v, want %d and %d mentions", person, got.Conversations, unread, mentions)
	}
	if want := e.unreadSiteMessages(person); got.SiteMessages.Total.Value != want {
		t.Fatalf("%s: site messages %+v, want %d", person, got.SiteMessages.Total, want)
	}
}
