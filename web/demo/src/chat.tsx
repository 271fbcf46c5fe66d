import { useEffect, useRef, useState } from 'preact/hooks';
import { BADGES, type BadgeCount } from '@tidings/client';
import { useTidings } from '@tidings/client/react';
import { newKey } from './link.ts';
import { clicked } from './meter.ts';
import { Avatar, Badge, Empty, Icon, nameOf, Waiting, type Person } from './parts.tsx';
import type { View } from './view.ts';
import { useCell } from './store.ts';
import { session } from './page.ts';
import { ago, clock, useWords } from './words.ts';

interface Message {
  readonly id: string;
  readonly body: string | null;
  readonly author: Person;
  readonly sentAt: string;
  readonly recalled: boolean;
}
interface Conversation {
  readonly id: string;
  readonly kind: string;
  readonly title: string | null;
  readonly memberCount: number;
  readonly unread: BadgeCount;
  readonly members: { readonly nodes: readonly Person[] } | null;
  readonly lastMessage: Message | null;
}

const message = 'id body author { id key name } sentAt recalled';
const watchList = `subscription WatchConversations($since: Version) { conversationsChanged(first: 20, since: $since) { conversations { nodes {
  id kind title memberCount unread { value display inTotal precision asOf } members(first: 2) { nodes { id key name } } lastMessage { ${message} } } } badges { ...TidingsBadges } } } ${BADGES}`;
const readMessages = `query Messages($id: ID!) { node(id: $id) { id ... on Conversation { messages(first: 30) { nodes { ${message} } } } } }`;
const watchTalk = `subscription WatchConversation($id: ID!) { conversationChanged(conversationId: $id) { conversation { id lastMessage { ${message} } } badges { ...TidingsBadges } } } ${BADGES}`;
const enter = `mutation Enter($input: EnterConversationInput!) { enterConversation(input: $input) { until badges { ...TidingsBadges } } } ${BADGES}`;
const leave = `mutation Leave($input: LeaveConversationInput!) { leaveConversation(input: $input) { changed badges { ...TidingsBadges } } } ${BADGES}`;
const sendMessage = `mutation SendMessage($input: SendMessageInput!) { sendMessage(input: $input) { message { ${message} } badges { ...TidingsBadges } } } ${BADGES}`;

const titleOf = ({ title, members }: Conversation) => title ?? members?.nodes.filter(({ key }) => key !== session.viewer).map(nameOf).join(', ') ?? '';

/** Chat is the list of conversations, and one of them when it is opened. */
export function Chat({ connection, shown, tell }: View) {
  const words = useWords();
  const tidings = useTidings();
  const now = useCell(clock);
  const [list, setList] = useState<readonly Conversation[]>();
  const [open, setOpen] = useState<string>();
  useEffect(
    () =>
      tidings.listen<{ conversationsChanged: { conversations: { nodes: readonly Conversation[] } } }>(watchList, { since: null }, ({ data }) => {
        if (data?.conversationsChanged) setList(data.conversationsChanged.conversations.nodes);
      }, () => undefined),
    [tidings],
  );
  const talk = list?.find(({ id }) => id === open);
  if (talk) return <Talk talk={talk} connection={connection} shown={shown} tell={tell} close={() => setOpen(undefined)} />;
  return (
    <div class="view">
      <div class="scroll" tabIndex={0} role="group" aria-label={words.chat}>
        <ul class="rows">
          {list?.map((conversation) => {
            const { lastMessage } = conversation;
            return (
              <li key={conversation.id}>
                <button type="button" class="row" onClick={() => setOpen(conversation.id)}>
                  <Avatar person={{ key: conversation.id, name: titleOf(conversation) }} size={40} />
                  <span class="text">
                    <b>{titleOf(conversation)}</b>
                    <small class="line">{lastMessage && (lastMessage.recalled ? words.recalled : `${lastMessage.author.key === session.viewer ? words.youSaid : nameOf(lastMessage.author)}: ${lastMessage.body}`)}</small>
                  </span>
                  <span class="side">
                    <small>{lastMessage && ago(lastMessage.sentAt, now)}</small>
                    <Badge count={conversation.unread} />
                  </span>
                </button>
              </li>
            );
          })}
        </ul>
        {!list && <Waiting label={words.loading} />}
        {list?.length === 0 && <Empty icon="chat"><p>{words.noTalks}</p></Empty>}
      </div>
    </div>
  );
}

/** How often a device says that it is still inside: its lease lasts a minute. */
const renewEvery = 40_000;

function Talk({ talk, connection, shown, tell, close }: { talk: Conversation; connection: number; shown: boolean; tell: View['tell']; close: () => void }) {
  const words = useWords();
  const tidings = useTidings();
  const now = useCell(clock);
  const [messages, setMessages] = useState<readonly Message[]>();
  const [text, setText] = useState('');
  const attempt = useRef<string | undefined>(undefined); // the key of the text in the field, from its first sending on
  const end = useRef<HTMLDivElement>(null);
  const add = (one: Message | null) =>
    one && setMessages((former) => (former ? [...former.filter(({ id }) => id !== one.id), one].sort((a, b) => (a.id < b.id ? -1 : 1)) : former));
  useEffect(() => {
    let turn = 0; // the answer of a former read changes nothing
    const read = (own = ++turn) =>
      tidings.request<{ node: { messages: { nodes: readonly Message[] } | null } | null }>(readMessages, { id: talk.id }).then(({ data }) => {
        if (own === turn && data?.node?.messages) setMessages([...data.node.messages.nodes].reverse());
      }, () => undefined);
    void read();
    return tidings.listen<{ conversationChanged: { conversation: { lastMessage: Message | null } } }>(watchTalk, { id: talk.id }, ({ data }) => {
      if (!data?.conversationChanged) return;
      add(data.conversationChanged.conversation.lastMessage);
      void read();
    }, () => undefined);
  }, [tidings, talk.id]);
  useEffect(() => {
    // Its lease can have ended without a network.
    if (shown && connection > 1) void tidings.request(enter, { input: { conversationId: talk.id } }).catch(() => undefined);
  }, [connection]);
  // Inside it nothing is counted, for as long as it is on the screen.
  useEffect(() => {
    if (!shown) return undefined;
    const input = { conversationId: talk.id };
    clicked();
    void tidings.request(enter, { input }).catch(tell);
    const renewal = setInterval(() => void tidings.request(enter, { input }).catch(() => undefined), renewEvery);
    return () => {
      clearInterval(renewal);
      void tidings.request(leave, { input }).catch(() => undefined);
    };
  }, [tidings, talk.id, shown]);
  useEffect(() => {
    end.current?.scrollTo({ top: end.current.scrollHeight });
  }, [messages?.length]);
  /** write changes the text: another text is another message. */
  const write = (next: string) => {
    attempt.current = undefined;
    setText(next);
  };
  const send = async (event: Event) => {
    event.preventDefault();
    if (!text.trim()) return;
    clicked();
    const idempotencyKey = (attempt.current ??= newKey());
    try {
      const { data, errors } = await tidings.request<{ sendMessage: { message: Message } | null }>(sendMessage, { input: { conversationId: talk.id, body: text, idempotencyKey } });
      if (!data?.sendMessage) throw new Error(errors?.[0]?.message);
      add(data.sendMessage.message);
      if (attempt.current === idempotencyKey) write(''); // unless another text was begun meanwhile
    } catch (reason) {
      tell(reason);
    }
  };
  return (
    <div class="view talk">
      <header class="bar">
        <button type="button" class="plain icononly" aria-label={words.back} onClick={close}><Icon name="back" size={18} /></button>
        <span><b>{titleOf(talk)}</b> <small>{talk.kind !== 'DIRECT' && words.members(talk.memberCount)}</small></span>
      </header>
      <div class="scroll bubbles" ref={end} tabIndex={0} role="log" aria-label={titleOf(talk)}>
        {!messages && <Waiting label={words.loading} />}
        {messages?.map((one) => (
          <p key={one.id} class={`bubble${one.author.key === session.viewer ? ' own' : ''}`}>
            <small>{one.author.key === session.viewer ? '' : nameOf(one.author)} {ago(one.sentAt, now)}</small>
            <span>{one.recalled ? words.recalled : one.body}</span>
          </p>
        ))}
      </div>
      <form class="say" onSubmit={(event) => void send(event)}>
        <input aria-label={words.say} placeholder={words.say} maxLength={500} autoComplete="off" value={text} onInput={({ currentTarget }) => write(currentTarget.value)} />
        <button class="round" aria-label={words.send}><Icon name="send" size={16} /></button>
      </form>
    </div>
  );
}
