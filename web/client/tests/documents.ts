// The operations of the scenarios. Relay's compiler gets them as they are; for the others its directives are taken out.
import { BADGES } from '@tidings/client';

const badges = 'badges { ...TidingsBadges @relay(mask: false) }';
const page = 'pageInfo { hasNextPage endCursor }';
const show = 'id title status plannedAt startedAt';

export const documents = {
  TidingsBadgesQuery: `query TidingsBadgesQuery { viewer { id ${badges} } }`,
  TidingsFeedQuery: `query TidingsFeedQuery($first: Int, $after: String) { viewer { id
    homeFeed(first: $first, after: $after) @connection(key: "Tidings_homeFeed") {
      edges { cursor node { id body publishedAt author { id key name } } } ${page} end } } }`,
  TidingsBoardQuery: `query TidingsBoardQuery($first: Int, $after: String) { viewer { id
    liveBoard(first: $first, after: $after) @connection(key: "Tidings_liveBoard") {
      edges { cursor status plannedAt startedAt node { ${show} } } ${page} sessionId } } }`,
  TidingsMarkMutation: `mutation TidingsMarkMutation($input: MarkHomeFeedSeenInput!) { markHomeFeedSeen(input: $input) { ${badges} } }`,
  TidingsFollowMutation: `mutation TidingsFollowMutation($input: FollowInput!) { follow(input: $input) { changed user { id key name } viewer { id ${badges} } } }`,
  TidingsUnfollowMutation: `mutation TidingsUnfollowMutation($input: UnfollowInput!) { unfollow(input: $input) { changed user { id key name } viewer { id ${badges} } } }`,
  TidingsWatchBadgesSubscription: `subscription TidingsWatchBadgesSubscription($since: Version) { badgesChanged(since: $since) { ...TidingsBadges @relay(mask: false) } }`,
  TidingsWatchBoardSubscription: `subscription TidingsWatchBoardSubscription($sessionId: String, $since: Version) {
    liveBoardChanged(sessionId: $sessionId, since: $since) { sessionId wentLive { ${show} } newAbove ${badges} } }`,
} as const;

export type Name = keyof typeof documents;

/** textOf makes an operation that every server understands. */
export function textOf(name: Name): string {
  const text = documents[name].replace(/ @(connection|relay)\([^)]*\)/g, '');
  return text.includes('...TidingsBadges') ? `${text} ${BADGES}` : text;
}
