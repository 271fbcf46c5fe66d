package rdb

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tidings/services"
	"tidings/services/redis"
)

// VersionedField is a field of a document whose value is absolute and begins with its version and ";": the newer version wins,
// so that it may be written late, twice and in any order.
//
//	N<category> H<category>  notifications: "ver;older;day;c0,...,c7", "ver;position of the newest"
//	N<ID> H<ID>              the same of the host application's categories; absent until the first notification
//	S<type>                  site messages: "ver;unread", or, if they leave the count by age, as N<category>
//	A                        announcements and dots: "ver;position;dots from (us)"
//	G                        segments: "ver;bits"
//	D<dot>                   "ver;raise (us) that the user dismissed"; absent until then
//	B                        live board: "ver;", the version of the changelog up to which shows were seen
//	V                        views: "ver;new items;1 if there may be more"; absent before the first touch
//	P                        display policy: "ver;turned in or out of the total;as dot;quiet from;to;offset"
//	Q                        categories for which the user chose a mode: "ver;C<category>,D<category>,...", C a number, D a dot, O off;
//	                         absent until the first preference
type VersionedField struct {
	Name  string // in the document
	Value string // the version, ";" and the parts of the value
}

// VersionedFields are the versioned fields to write into one user's document.
type VersionedFields struct {
	User   services.UserID
	Fields []VersionedField
}

// These are the names of the versioned fields that do not depend on the configuration. VersionedField describes their values.
const (
	announcementField  = "A" // announcements and dots
	segmentField       = "G" // the user's segments
	policyField        = "P" // the display policy
	liveSeenField      = "B" // up to where the live board was seen
	viewsField         = "V" // new items of general views
	categoryModesField = "Q" // the modes that the user chose for categories

	// These two fields have no version. Documents have them only if posts or messages leave the counts by age.
	feedExpiredField   = "fx" // home feed: the newest post that is too old for the count
	nextExpiryDayField = "Cx" // conversations: the day on which the next messages leave the counts
)

// fixedVersionedField is a versioned field of every document, whatever is configured, with the pattern of a whole value. A field
// that few users have may be absent until its first version, like a dot: each byte counts in the document of an idle user.
type fixedVersionedField struct {
	field, pattern string // the field's name, and the Lua pattern of a valid value
	optional       bool   // the field may be absent until its first version
}

// fixedVersionedFields are the versioned fields of every document. Add a new one at the end, with optional: documents of the previous
// release do not have it.
//
// Features do not register them, as they register jobs and lists. Every badge that is read is parsed by parseFixedVersionedFields, which
// calls the parsers directly, and keeps their values in VersionedValues without an allocation. Both name each field anyway; a
// registered parser would be a call through a table, which makes each document escape to the heap.
var fixedVersionedFields = []fixedVersionedField{
	{announcementField, `^%d+;%d+;%d+$`, false},
	{segmentField, `^%d+;%d+$`, false},
	{policyField, `^%d+;%d+;%d+;%d+;%d+;%-?%d+$`, false},
	{liveSeenField, `^%d+;$`, false},
	{viewsField, `^%d+;%d+;[01]$`, true},
	{categoryModesField, `^%d+;[^;]*$`, true},
}

// VersionedValues holds the values of the fixed versioned fields.
type VersionedValues struct {
	Announcements services.AnnouncementState
	Segments      services.SegmentState
	Policy        services.DisplayPolicy
	LiveSeenUpTo  uint64 // live board: shows that went live up to this version of the changelog were seen
	Views         services.ViewsState
	Modes         services.CategoryModes // the modes that the user chose for categories
}

// parseFixedVersionedFields reads the fixed versioned fields, in the order of fixedVersionedFields, which says why each is called by name.
func (p *documentParser) parseFixedVersionedFields(r *VersionedValues) {
	r.Announcements = p.announcements()
	r.Segments = p.segments()
	r.Policy = p.policy()
	r.LiveSeenUpTo = p.liveSeen()
	r.Views = p.views()
	r.Modes = p.modes()
}

// countsField names the field of a category's counts: a prefix and the category's first letter. Every document has it.
func countsField(category services.Category) string {
	return CategoryCountsPrefix + string(category[:1])
}

// newestField names the field of a category's newest notification. It is absent until the counts get their first version.
func newestField(category services.Category) string {
	return newestNotificationPrefix + string(category[:1])
}

// hostCategoryFields are the two fields of a category of the host application, which contain its ID. A document has both, or neither
// before the first notification.
func hostCategoryFields(id int) (counts, newest string) {
	return CategoryCountsPrefix + strconv.Itoa(id), newestNotificationPrefix + strconv.Itoa(id)
}

// newestNotificationPrefix is before a category: the position of its newest notification.
const newestNotificationPrefix = "H"

// messagesField names the field of a type of site messages. It contains the type's name, which the application chose.
func messagesField(kind string) string { return "S" + kind }

// dotField names the field of a dot. It contains the dot's name, which the application chose.
func dotField(name string) string { return "D" + name }

// versionedFieldsPut is the script of PutVersionedFields and VersionedFieldRebuildSteps.
var versionedFieldsPut = loadScript("versioned_fields_put")

// PutVersionedFields writes versioned fields into the users' documents, one script for each user, one round trip for each 500 users. The
// result is Missing for a user without a document: their rebuild writes the fields.
func (c *Projections) PutVersionedFields(ctx context.Context, users []VersionedFields) ([]redis.Result, error) {
	return c.Client.ChangeForResults(ctx, versionedFieldsPut, services.Map(users, versionedFieldsCall))
}

// versionedFieldsCall is the call of the script versionedFieldsPut for one user. In a rebuild, redis.NumberSteps puts the step's number in the place
// of the first argument.
func versionedFieldsCall(user VersionedFields) redis.ScriptCall {
	args := make([]any, 1, 1+2*len(user.Fields))
	args[0] = redis.NoStepNumber
	for _, field := range user.Fields {
		args = append(args, field.Name, field.Value)
	}
	return redis.ScriptCall{Keys: []string{DocumentKey(user.User), onlineKey(user.User)}, Args: args}
}

// VersionedFieldRebuildSteps are the steps of a user's rebuild that write versioned fields.
func VersionedFieldRebuildSteps(user services.UserID, fields []VersionedField) []redis.SequenceStep {
	if len(fields) == 0 {
		return nil
	}
	return []redis.SequenceStep{{Script: versionedFieldsPut, ScriptCall: versionedFieldsCall(VersionedFields{user, fields})}}
}

// versionedValue prints a versioned field of small parts. versioned_fields_put.lua reads the version and leaves the rest alone.
func versionedValue(version uint64, parts ...string) string {
	return strconv.FormatUint(version, 10) + ";" + strings.Join(parts, ";")
}

// CategoryVersionedFields are the versioned fields of one category of notifications. Both have the version of the counts, so
// they win or lose together.
func CategoryVersionedFields(counts services.CategoryCounts) []VersionedField {
	// The fields of a category of the host application have its ID and not its name: the ID is shorter, and a name may be defined again.
	var count, newest string
	if counts.HostCategoryID > 0 {
		count, newest = hostCategoryFields(counts.HostCategoryID)
	} else {
		count, newest = countsField(counts.Category), newestField(counts.Category)
	}
	return []VersionedField{{count, countsText(counts)}, {newest, versionedValue(counts.Version, counts.Newest.String())}}
}

// DropCategory takes the fields of a removed category of the host application out of documents. The fields are not read any
// more; this frees their memory.
func (c *Projections) DropCategory(ctx context.Context, users []services.UserID, id int) error {
	if len(users) == 0 {
		return nil
	}
	counts, newest := hostCategoryFields(id)
	_, err := c.Client.Pipeline(ctx, func(p redis.Pipeliner) {
		for _, user := range users {
			p.HDel(ctx, DocumentKey(user), counts, newest)
		}
	})
	return redis.MapError(err)
}

// MessagesVersionedField is the versioned field of one type of site messages.
func MessagesVersionedField(state services.MessageTypeState) VersionedField {
	return VersionedField{messagesField(state.Type), versionedValue(state.Version, redis.FormatInteger(state.Unread))}
}

// MessageDaysVersionedField is the versioned field of one type of site messages, with unread messages by day. It takes the place of
// MessagesVersionedField where messages leave the count by age.
func MessageDaysVersionedField(state services.MessageTypeState) VersionedField {
	return VersionedField{messagesField(state.Type), countsText(services.CategoryCounts{
		Version: state.Version, OlderUnseen: state.UnreadByDay.OlderCount, NewestDay: state.UnreadByDay.NewestDay, CountByDay: state.UnreadByDay.CountByDay,
	})}
}

// AnnouncementVersionedField is the versioned field of a user's position in the announcements.
func AnnouncementVersionedField(state services.AnnouncementState) VersionedField {
	return VersionedField{announcementField, versionedValue(state.Version, redis.FormatInteger(state.Position), redis.FormatInteger(state.DotsDismissedUpTo))}
}

// SegmentVersionedField is the versioned field of a user's segments.
func SegmentVersionedField(state services.SegmentState) VersionedField {
	return VersionedField{segmentField, versionedValue(state.Version, redis.FormatInteger(state.Bits))}
}

// DotVersionedField is the versioned field of a dismissed dot: its version is the raise that the user dismissed.
func DotVersionedField(name string, seen uint64) VersionedField {
	return VersionedField{dotField(name), versionedValue(seen, redis.FormatInteger(seen))}
}

// PolicyVersionedField is the versioned field of a display policy.
func PolicyVersionedField(policy services.DisplayPolicy) VersionedField {
	return VersionedField{policyField, versionedValue(policy.Version, redis.FormatInteger(services.PackSources(policy.InTotalInverted)), redis.FormatInteger(services.PackSources(policy.AsDot)),
		redis.FormatInteger(policy.QuietFromMinute), redis.FormatInteger(policy.QuietToMinute), redis.FormatInteger(policy.UTCOffsetMinutes))}
}

// LiveSeenVersionedField is the versioned field with the changelog version up to which the live board was seen.
func LiveSeenVersionedField(version uint64) VersionedField {
	return VersionedField{liveSeenField, versionedValue(version)}
}

// ViewsVersionedField is the versioned field of the new items in a user's views.
func ViewsVersionedField(state services.ViewsState) VersionedField {
	more := "0"
	if state.AtLeast {
		more = "1"
	}
	return VersionedField{viewsField, versionedValue(state.Version, redis.FormatInteger(state.Unread), more)}
}

// The constants are the letters of the modes in the versioned field.
const (
	countModeLetter = 'C'
	dotModeLetter   = 'D'
	offModeLetter   = 'O'
)

// ModesVersionedField is the versioned field of the categories for which a user chose a mode, in the order of their names, so
// that equal choices have equal values: the audit compares texts.
func ModesVersionedField(modes services.CategoryModes) VersionedField {
	var list []string
	for _, category := range slices.Sorted(maps.Keys(modes.ByCategory)) {
		switch modes.ByCategory[category] {
		case services.CategoryCounted:
			list = append(list, string(countModeLetter)+string(category))
		case services.CategoryDot:
			list = append(list, string(dotModeLetter)+string(category))
		case services.CategoryOff:
			list = append(list, string(offModeLetter)+string(category))
		}
	}
	return VersionedField{categoryModesField, versionedValue(modes.Version, strings.Join(list, ","))}
}

// modeOf reads the mode of an item: the letter of a mode before the name of a category. known is false for any other letter, or without a
// name.
func modeOf(item string) (mode services.CategoryMode, known bool) {
	if len(item) < 2 {
		return mode, false
	}
	switch item[0] {
	case countModeLetter:
		return services.CategoryCounted, true
	case dotModeLetter:
		return services.CategoryDot, true
	case offModeLetter:
		return services.CategoryOff, true
	}
	return mode, false
}

// modes parses the modes of categories. Like it, each parser below reads one fixed versioned field. The initial value reads as the zero
// value. If the version or a part is broken, failed is set.
func (p *documentParser) modes() (modes services.CategoryModes) {
	text := p.next()
	if text == initialValue {
		return modes
	}
	version, list, whole := strings.Cut(text, ";")
	modes.Version = p.numberOf(version)
	p.failed = p.failed || !whole
	if list == "" {
		return modes
	}
	modes.ByCategory = map[services.Category]services.CategoryMode{}
	// Names of categories have no comma: see services.CheckHostCategory.
	for item := range strings.SplitSeq(list, ",") {
		mode, known := modeOf(item)
		if !known {
			p.failed = true
			return modes
		}
		modes.ByCategory[services.Category(strings.Clone(item[1:]))] = mode // a document that is kept must not keep the whole reply
	}
	return modes
}

// announcements parses the user's read position in the announcements, and the time up to which raised dots count as dismissed.
func (p *documentParser) announcements() services.AnnouncementState {
	var version, position, from string
	p.splitField(&version, &position, &from)
	return services.AnnouncementState{Version: p.numberOf(version), Position: p.numberOf(position), DotsDismissedUpTo: p.numberOf(from)}
}

// segments parses the user's segments, one bit each.
func (p *documentParser) segments() services.SegmentState {
	var version, text string
	p.splitField(&version, &text)
	bits, err := strconv.ParseUint(text, 10, 64) // number refuses the 64th bit, which segments use
	p.failed = p.failed || err != nil
	return services.SegmentState{Version: p.numberOf(version), Bits: bits}
}

// liveSeen parses the version of the changelog up to which the user has seen the live board. The field has no other part.
func (p *documentParser) liveSeen() (version uint64) {
	text := p.next()
	if text == initialValue {
		return 0
	}
	text, whole := strings.CutSuffix(text, ";")
	p.failed = p.failed || !whole
	return p.numberOf(text)
}

// views parses the count of new items in the user's general views.
func (p *documentParser) views() services.ViewsState {
	var version, unread, more string
	p.splitField(&version, &unread, &more)
	p.failed = p.failed || more != "0" && more != "1"
	return services.ViewsState{Version: p.numberOf(version), Unread: int(p.numberOf(unread)), AtLeast: more == "1"}
}

// policy parses the user's display policy.
func (p *documentParser) policy() (policy services.DisplayPolicy) {
	var version, out, dot, from, to, offset string
	p.splitField(&version, &out, &dot, &from, &to, &offset)
	policy.Version, policy.InTotalInverted, policy.AsDot = p.numberOf(version), services.UnpackSources(p.numberOf(out)), services.UnpackSources(p.numberOf(dot))
	policy.QuietFromMinute, policy.QuietToMinute, policy.UTCOffsetMinutes = int(p.numberOf(from)), int(p.numberOf(to)), int(p.parseSigned(offset))
	return policy
}
