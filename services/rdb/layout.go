package rdb

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tidings/services"
	"tidings/services/redis"
)

// documentLayout is the fields of a document, in the order of reading. It depends on the configured types of site messages, on
// the existing dots and on the categories of the host application. It never changes after newLayout: a change makes a
// new one.
type documentLayout struct {
	messageTypes, dots    []string                 // the configured types of site messages, and the names of the existing dots
	hostCategories        *services.HostCategories // the categories of the host application
	expiry                services.SourceExpiry    // the sources whose items leave the counts by age
	unversionedFieldCount int                      // the number of fields before the versioned ones
	// fields are the names, in the order of reading. absentWithPrevious and optional have one value for each of them except the
	// dots, which come last; initialFields has three for each except unversionedFields and the dots.
	fields             []string
	readAll            *redis.Fields // the read of fields
	readWithBirthStamp *redis.Fields // the read of fields and birthStampField, see documentMemory
	changeCheck        *redis.Fields // the read that shows whether a kept document has changed, see changeCheckFields
	initialFields      []any         // triples for rebuild_begin.lua: field, value at birth ("": none; "?": may be absent), its pattern
	absentWithPrevious []bool        // for each of fields: whether it is absent until the field before it has a version
	optional           []bool        // for each of fields: whether it may be absent
}

// initialValue is a versioned field before its first version. Scripts read no version in it, so that any version is newer. It is
// short, so that the document of a user without any items stays small.
const initialValue = "0"

// optionalInitialValue is the value at birth of a field that may be absent.
const optionalInitialValue = "?"

// unversionedFields are the fields before the versioned fields, in the order of documentLayout.fields. parseTexts takes them in
// this order; st and e come first, because parseTexts looks at them before all others.
var unversionedFields = []string{"st", "e", "n", "d", "T", "fc", "F", "L", "Cu", "Cm", "R", "Cv"}

// The constants are Lua patterns for whole values. rebuild_begin compares each field with its pattern: a broken field gets its
// initial value again, and the rebuild writes its facts.
const (
	// countsPattern is for counts by days: the version, the count of older days, the newest day and the counts of eight days, as
	// countsText prints them.
	countsPattern = `^%d+;%d+;%d+;%d+,%d+,%d+,%d+,%d+,%d+,%d+,%d+$`
	// positionPattern is for a version and the ID of a position.
	positionPattern = `^%d+;[0-7]` + "[0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z]" +
		"[0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z]$"
)

// newLayout lists the fields, with the value at birth of each. parseVersionedFields and parseTexts read them in the same order.
func newLayout(types, dots []string, hosts *services.HostCategories, expiry services.SourceExpiry) *documentLayout {
	l := &documentLayout{messageTypes: types, dots: dots, hostCategories: hosts, expiry: expiry, fields: slices.Clone(unversionedFields), absentWithPrevious: make([]bool, len(unversionedFields)), optional: make([]bool, len(unversionedFields))}
	// value "" sets absentWithPrevious: the field is born with the first version of the field before it.
	register := func(field, value, pattern string) {
		l.fields = append(l.fields, field)
		l.initialFields = append(l.initialFields, field, value, pattern)
		l.absentWithPrevious, l.optional = append(l.absentWithPrevious, value == ""), append(l.optional, value == optionalInitialValue)
	}
	// A document keeps these fields only where items leave the counts by age: each byte counts in millions of
	// documents.
	if expiry.Expires(services.SourceHomeFeed) {
		register(feedExpiredField, initialValue, `^[0-7]`+strings.Repeat("[0-9A-HJKMNP-TV-Z]", services.SortableIDLetters-1)+`$`)
	}
	if expiry.Expires(services.SourceConversations) {
		register(nextExpiryDayField, initialValue, `^%d+$`)
	}
	// From here on the fields have versions. Their order is the same as in documentParser.parseVersionedFields.
	l.unversionedFieldCount = len(l.fields)
	for _, fixed := range fixedVersionedFields {
		birth := initialValue
		if fixed.optional {
			birth = optionalInitialValue
		}
		register(fixed.field, birth, fixed.pattern)
	}
	for _, category := range services.Categories {
		register(countsField(category), initialValue, countsPattern)
		register(newestField(category), "", positionPattern) // the counts and the newest position are written together
	}
	// A category of the host application may be new: older documents lack its fields, which means that they have no notification
	// of it.
	for _, host := range hosts.All() {
		counts, newest := hostCategoryFields(host.ID)
		register(counts, optionalInitialValue, countsPattern)
		register(newest, optionalInitialValue, positionPattern)
	}
	for _, kind := range types {
		if expiry.Expires(services.SourceSiteMessages) {
			register(messagesField(kind), initialValue, countsPattern)
		} else {
			register(messagesField(kind), initialValue, `^%d+;%d+$`)
		}
	}
	// A dot is absent until the user dismisses it, and has no pattern: rebuild_begin leaves it alone.
	for _, dot := range dots {
		l.fields = append(l.fields, dotField(dot))
	}
	l.readAll, l.readWithBirthStamp = redis.NewFields(l.fields), redis.NewFields(append(slices.Clone(l.fields), birthStampField))
	l.changeCheck = redis.NewFewFields(slices.Concat(changeCheckFields, l.fields[len(unversionedFields):l.unversionedFieldCount], []string{birthStampField}))
	return l
}

// readCommand is the command that reads a user's document, as the last step of a rebuild.
func (l *documentLayout) readCommand(user services.UserID) []any {
	command := append(make([]any, 0, 2+len(l.fields)), "HMGET", DocumentKey(user))
	for _, field := range l.fields {
		command = append(command, field)
	}
	return command
}

// SetDots sets which dots exist: their fields are read from now on. It is safe for concurrent use with readers.
func (c *Projections) SetDots(names []string) {
	c.layoutMu.Lock()
	defer c.layoutMu.Unlock()
	layout := c.layout.Load()
	if slices.Equal(layout.dots, names) { // so that kept documents stay valid
		return
	}
	c.layout.Store(newLayout(layout.messageTypes, slices.Clone(names), layout.hostCategories, layout.expiry))
}

// SetCategories sets the categories of the host application: their fields are read from now on, and each Document has the
// categories by which it was read. It is safe for concurrent use with readers.
func (c *Projections) SetCategories(hosts *services.HostCategories) {
	c.layoutMu.Lock()
	defer c.layoutMu.Unlock()
	layout := c.layout.Load()
	c.layout.Store(newLayout(layout.messageTypes, layout.dots, hosts, layout.expiry))
}

// documentParser parses a document, and remembers whether any part was broken. It goes on after a broken part, so that no
// parser has to return an error; the caller looks at failed once, at the end.
type documentParser struct {
	texts  []string // what is still to be parsed
	failed bool     // a part was broken
}

// next takes the next text. parseTexts has checked that there is one for each field of the layout.
func (p *documentParser) next() string {
	text := p.texts[0]
	p.texts = p.texts[1:]
	return text
}

// number parses a count, a version or a day. 63 bits suffice for all of them, and keep the result within an int64.
func (p *documentParser) number() uint64 { return p.numberOf(p.next()) }

// numberOf parses a count, a version or a day from a text that was taken already. A text that is none sets failed.
func (p *documentParser) numberOf(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 63)
	p.failed = p.failed || err != nil
	return n
}

// parseSigned parses a number that may be negative: an offset of time.
func (p *documentParser) parseSigned(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	p.failed = p.failed || err != nil
	return n
}

// position parses a position: a sortable ID, or the "0" that stands for the position before all others.
func (p *documentParser) position(text string) services.SortableID {
	if text == initialValue {
		return 0
	}
	id, err := services.ParseSortableID(text)
	p.failed = p.failed || err != nil
	return id
}

// postPosition parses a position in the home feed, as position does.
func (p *documentParser) postPosition(text string) services.PostID {
	return services.PostID(p.position(text))
}

// splitField splits a versioned field into exactly as many parts as into has; a field with the initial value has "0" in each.
func (p *documentParser) splitField(into ...*string) {
	text := p.next()
	if text == initialValue {
		for _, part := range into {
			*part = initialValue
		}
		return
	}
	for i, part := range into {
		var found bool
		*part, text, found = strings.Cut(text, ";")
		p.failed = p.failed || found != (i < len(into)-1)
	}
}

// parse parses a document from the answer to HMGET, with the values as go-redis gives them. A missing or broken field, or another
// epoch, makes the document not ready: see parseTexts.
func (l *documentLayout) parse(values []any, epoch string) Document {
	texts := make([]string, len(values))
	for i, value := range values {
		switch text := value.(type) {
		case string:
			texts[i] = text
		case nil:
			texts[i] = redis.AbsentField
		default: // no field has such a value
			return Document{}
		}
	}
	return l.parseTexts(texts, epoch)
}

// parseTexts reads the fields; it may change texts. A missing or broken field, or another epoch, makes the document not ready;
// such a field never reads as 0.
func (l *documentLayout) parseTexts(texts []string, epoch string) Document {
	if len(texts) != len(l.fields) || texts[0] != "1" || texts[1] != epoch {
		return Document{}
	}
	// A missing field that may be absent reads as initialValue; any other missing field was lost. Dots come last and may all be
	// absent: they are read at the end.
	fixed := len(texts) - len(l.dots)
	for i, text := range texts[:fixed] {
		if text != redis.AbsentField {
			continue
		}
		// i-1 is never negative: the first fields have no version, and are never absent with another.
		if lacks := l.absentWithPrevious[i] && texts[i-1] == initialValue || l.optional[i]; !lacks {
			return Document{}
		}
		texts[i] = initialValue
	}
	p := &documentParser{texts: texts[2:fixed]}
	d := Document{Ready: true, Categories: l.hostCategories}
	d.Version, d.LastActiveDay, d.FeedSeenUpTo = p.number(), int64(p.number()), p.postPosition(p.next())
	// The "+" is a suffix, so that a script can compare the whole field with a recount as text.
	count, more := strings.CutSuffix(p.next(), "+")
	d.FeedCount, d.FeedCountAtLeast = int(p.numberOf(count)), more
	d.PulledAuthors = p.unpackAuthors(PulledAuthorsField, p.next())
	d.Hosts = p.unpackAuthors(HostsField, p.next())
	d.Conversations.Unread, d.Conversations.Mentions = int(p.number()), int(p.number())
	d.Conversations.CountedOnRead = p.unpackCountedOnRead(p.next())
	d.Conversations.Version = p.number()
	l.readExpiryFields(p, &d)
	p.parseVersionedFields(l, &d)
	for i, dot := range l.dots {
		if text := texts[fixed+i]; text != redis.AbsentField {
			_, seen, found := strings.Cut(text, ";")
			p.failed = p.failed || !found
			if d.DismissedUpToByDot == nil {
				d.DismissedUpToByDot = make(map[string]uint64, len(l.dots))
			}
			d.DismissedUpToByDot[dot] = p.numberOf(seen)
		}
	}
	// One broken part makes the whole document doubtful: the rebuild replaces it.
	if p.failed {
		return Document{}
	}
	return d
}

// parseVersionedFields reads the versioned fields except the dots, in the order of newLayout.
func (p *documentParser) parseVersionedFields(l *documentLayout, d *Document) {
	var version, a string
	p.parseFixedVersionedFields(&d.VersionedValues)
	hosts := l.hostCategories.All()
	d.Notifications = make([]services.CategoryCounts, 0, len(services.Categories)+len(hosts))
	for _, category := range services.Categories {
		d.Notifications = append(d.Notifications, p.category(category))
	}
	for _, host := range hosts {
		p.failed = p.failed || (p.texts[0] == initialValue) != (p.texts[1] == initialValue) // one without the other: the other was lost
		counts := p.category(host.Name)
		counts.HostCategoryID = host.ID
		d.Notifications = append(d.Notifications, counts)
	}
	d.Messages = make([]services.MessageTypeState, 0, len(l.messageTypes))
	for _, kind := range l.messageTypes {
		if l.expiry.Expires(services.SourceSiteMessages) {
			d.Messages = append(d.Messages, p.messageDays(kind))
			continue
		}
		p.splitField(&version, &a)
		d.Messages = append(d.Messages, services.MessageTypeState{Type: kind, Version: p.numberOf(version), Unread: int(p.numberOf(a))})
	}
}

// category reads the two fields of a category of notifications: its counts, and its newest notification. The second field's
// own version is only for the script that writes it.
func (p *documentParser) category(name services.Category) (counts services.CategoryCounts) {
	if text := p.next(); text != initialValue {
		var err error
		counts, err = parseCounts(text)
		p.failed = p.failed || err != nil
	}
	var version, newest string
	p.splitField(&version, &newest)
	p.numberOf(version)
	counts.Category = name
	if newest != initialValue {
		counts.Newest = services.NotificationID(p.position(newest))
	}
	return counts
}

// messageDays parses the unread count by days of one type of site messages.
func (p *documentParser) messageDays(kind string) services.MessageTypeState {
	state := services.MessageTypeState{Type: kind}
	text := p.next()
	if text == initialValue {
		return state
	}
	counts, err := parseCounts(text)
	p.failed = p.failed || err != nil
	state.Version, state.UnreadByDay = counts.Version, services.DayCounts{OlderCount: counts.OlderUnseen, NewestDay: counts.NewestDay, CountByDay: counts.CountByDay}
	state.Unread = state.UnreadByDay.OlderCount + state.UnreadByDay.CountSince(0)
	return state
}

// unpackCountedOnRead reads conversations and positions, 4 bytes each, as the function withPosition of lib_conversations.lua writes
// them.
func (p *documentParser) unpackCountedOnRead(packed string) (list []services.CountedOnReadPosition) {
	const size = 8
	if len(packed)%size != 0 {
		p.failed = true
		return nil
	}
	if packed != "" {
		list = make([]services.CountedOnReadPosition, 0, len(packed)/size)
	}
	for ; packed != ""; packed = packed[size:] {
		bytes := []byte(packed[:size])
		list = append(list, services.CountedOnReadPosition{
			Conversation: services.ConversationID(binary.BigEndian.Uint32(bytes)), ReadUpTo: int64(binary.BigEndian.Uint32(bytes[4:])),
		})
	}
	return list
}

// countsText prints absolute counts as "ver;older;day;c0,...,c7": c0 is the count of the day, c1 of the day before, and older is the
// count of all earlier days. It stays under 64 bytes, the limit of compact hashes by Redis' default setting.
func countsText(counts services.CategoryCounts) string {
	text := make([]byte, 0, 64)
	text = strconv.AppendUint(text, counts.Version, 10)
	text = append(text, ';')
	text = strconv.AppendInt(text, int64(counts.OlderUnseen), 10)
	text = append(text, ';')
	text = strconv.AppendInt(text, counts.NewestDay, 10)
	for i, count := range counts.CountByDay {
		text = append(text, ";,"[min(i, 1)])
		text = strconv.AppendInt(text, int64(count), 10)
	}
	return string(text)
}

// parseCounts reads what countsText prints. It does not distinguish the two separators: the patterns of rebuild_begin do that.
func parseCounts(text string) (counts services.CategoryCounts, err error) {
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == ',' })
	if len(parts) != 3+len(counts.CountByDay) {
		return counts, fmt.Errorf("counts %q: %d parts", text, len(parts))
	}
	var numbers [3 + len(counts.CountByDay)]uint64
	for i, part := range parts {
		if numbers[i], err = strconv.ParseUint(part, 10, 63); err != nil {
			return counts, fmt.Errorf("counts %q: %w", text, err)
		}
	}
	counts.Version, counts.OlderUnseen, counts.NewestDay = numbers[0], int(numbers[1]), int64(numbers[2])
	for i := range counts.CountByDay {
		counts.CountByDay[i] = int(numbers[3+i])
	}
	return counts, nil
}
