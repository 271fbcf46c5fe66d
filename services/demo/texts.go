package demo

// cast are the people that a visitor meets: the viewer first, then people with many followers. plannedConversations and the script
// refer to their positions in the list, so a new person is added at the end.
var cast = []person{
	{key: viewerKey, name: "Mia"},
	{key: "ben", name: "Ben"}, {key: "lea", name: "Lea"}, {key: "tom", name: "Tom"}, {key: "xiaolan", name: "晓岚"},
	{key: "noor", name: "Noor"}, {key: "jonas", name: "Jonas"}, {key: "priya", name: "Priya"}, {key: "kenji", name: "Kenji"},
	{key: "sofia", name: "Sofia"}, {key: "yifan", name: "一凡"}, {key: "amara", name: "Amara"}, {key: "luca", name: "Luca"},
	{key: "ines", name: "Inés"}, {key: "oskar", name: "Oskar"}, {key: "hana", name: "Hana"},
}

// plannedConversation is a conversation that the viewer is in; members are the other people in it, as numbers of the cast. Without
// a title it is a direct conversation. The first member creates it.
type plannedConversation struct {
	title   string
	members []int // positions in cast
}

// plannedConversations are all conversations of the demo. After a restart, findExistingWorld finds them by their titles, so each title is
// different. At most one has no title: the empty title finds the direct conversation.
var plannedConversations = []plannedConversation{
	{"Climbing on Thursday", []int{1, 2, 3, 5, 6}},
	{"", []int{1}},
	{"Dinner club", []int{2, 4, 7, 8, 9}},
}

// pastMessages are the messages that were sent in the conversations before the visitor came, in order. They go to the three
// conversations in turn.
var pastMessages = []string{
	"Who has the rope?", "Are you around this weekend?", "I found a new noodle place",
	"I have it, and two harnesses", "Call me when you are home", "Table for six?",
}

// firstNames are for the people beside the cast: the key is ASCII, as applications have it, and the name is as people write it.
// With 60 names and five letters each there are names for exactly the 300 other people.
var firstNames = []struct{ key, name string }{
	{"ada", "Ada"}, {"ali", "Ali"}, {"ana", "Ana"}, {"anton", "Anton"}, {"aya", "Aya"}, {"bao", "Bao"}, {"chen", "Chen"}, {"clara", "Clara"},
	{"dana", "Dana"}, {"david", "David"}, {"diego", "Diego"}, {"elif", "Elif"}, {"emil", "Emil"}, {"emma", "Emma"}, {"eva", "Eva"},
	{"femi", "Femi"}, {"finn", "Finn"}, {"freya", "Freya"}, {"hugo", "Hugo"}, {"ida", "Ida"}, {"ivan", "Ivan"}, {"jin", "Jin"}, {"joao", "João"},
	{"kai", "Kai"}, {"karim", "Karim"}, {"lars", "Lars"}, {"leila", "Leila"}, {"lin", "Lin"}, {"lucy", "Lucy"}, {"maya", "Maya"}, {"mei", "Mei"},
	{"milo", "Milo"}, {"mina", "Mina"}, {"nadia", "Nadia"}, {"nils", "Nils"}, {"nora", "Nora"}, {"olga", "Olga"}, {"omar", "Omar"}, {"paul", "Paul"},
	{"pia", "Pia"}, {"quinn", "Quinn"}, {"rafa", "Rafa"}, {"ravi", "Ravi"}, {"rosa", "Rosa"}, {"sam", "Sam"}, {"sara", "Sara"}, {"sven", "Sven"},
	{"tara", "Tara"}, {"theo", "Theo"}, {"uma", "Uma"}, {"vera", "Vera"}, {"wei", "Wei"}, {"yara", "Yara"}, {"yuki", "Yuki"}, {"zoe", "Zoe"},
	{"zara", "Zara"}, {"ruben", "Ruben"}, {"tuva", "Tuva"}, {"selma", "Selma"}, {"arno", "Arno"},
}

// The texts of posts, and below them the texts of mentions of the viewer, comments, messages and titles of shows. Some
// are Chinese: a text may have any script.
var postTexts = []string{
	"First snow on the balcony this morning.", "The night train was on time. I want this in writing.", "Fresh bread, and the whole street knows.",
	"Anybody else up for a swim before work?", "Finished the book. Now what?", "The cat has learned to open the fridge.",
	"Two hours of fog, ten minutes of view. Worth it.", "今天的晚霞太美了。", "New record on the hill: 18 minutes and no breath left.",
	"Repaired the bike with a spoon. It holds.", "I planted tomatoes. The snails are delighted.", "Rehearsal tonight, doors open at eight.",
	"The market has strawberries again.", "My grandmother beats everybody at cards. Everybody.", "刚学会做手擀面，面粉到处都是。",
	"Half the office is humming the same song.", "The lighthouse is open on Sundays. Who knew?", "It is raining sideways. I like it.",
	"Found a letter from 1987 behind the shelf.", "The new bridge is open. I was number 14.", "Coffee number three. The bug is still winning.",
	"Looking for a second cello. Serious offers only.", "The kids built a boat. It floats, more or less.", "Sunday plan: none. Recommended.",
	"Today I said yes to a marathon. Send help.", "Our team won, on penalties, in the rain.", "周末去爬山，有人一起吗？",
	"I made the soup. Nobody believes me.", "The stars over the lake tonight!", "Moved the desk to the window. Best idea this year.",
	"A fox crossed the schoolyard and waited at the light.", "The old projector still works.", "Back from the hills, with a stone for everybody.",
	"Learned three chords. Two songs are mine now.", "地铁上有人在拉小提琴，整节车厢都安静了。", "Does anybody want 4 kilos of plums?",
}

// mentionTexts are texts that follow the key of the viewer.
var mentionTexts = []string{
	"are you coming on Thursday?", "this one is for you", "remember this place?", "you were right about the bread", "周四见？",
}

// commentTexts are texts of answers to posts.
var commentTexts = []string{
	"I want to see that.", "Count me in!", "How long did it take you?", "That made my day.", "Same here.", "太好了！", "Send pictures.",
	"I have never managed that.", "Save me a seat.", "Where is this?", "Beautiful.", "You are unbelievable.",
}

// messageTexts are texts in the conversations.
var messageTexts = []string{
	"On my way", "Ten minutes late, sorry", "Who brings the snacks?", "I will bring the tent", "See you there", "好的，马上到", "The door code is new, ask me",
	"Same place as last time?", "Can somebody pick me up?", "I booked it", "Not before seven", "Perfect", "My train is late again", "Look at the sky!",
}

// showTitles are titles of shows.
var showTitles = []string{
	"Bread from nothing", "Late night piano", "Fixing a 1974 bicycle", "Sunset from the roof", "Ask me about bees", "Live from the market",
	"One knife, ten onions", "Chess against everybody", "Printing on stone", "做一碗热汤面", "Storm watching", "Learning the cello, week 3",
	"The garden at dawn", "Building a canoe", "Vinyl only", "Sketching strangers",
}
