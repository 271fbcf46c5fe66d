// The part of Tidings' schema that is measured, type for type.
export const schema = `
scalar Time

enum Precision { EXACT AT_LEAST STALE UNKNOWN }
enum PostKind { POST }
enum FeedEnd { END RETENTION }

type BadgeCount {
  value: Int!
  display: String!
  inTotal: Boolean!
  precision: Precision!
  asOf: Time
}

type NotificationBadges {
  newest: ID
  total: BadgeCount!
  like: BadgeCount!
}

type Badges {
  version: String!
  total: BadgeCount!
  homeFeed: BadgeCount!
  notifications: NotificationBadges!
}

type User {
  id: ID!
  key: String!
  name: String
  avatarUrl: String
}

type Post {
  id: ID!
  kind: PostKind!
  author: User!
  body: String!
  publishedAt: Time!
}

type PostEdge {
  cursor: String!
  node: Post!
}

type PageInfo {
  hasNextPage: Boolean!
  hasPreviousPage: Boolean!
  startCursor: String
  endCursor: String
}

type PostConnection {
  edges: [PostEdge!]!
  pageInfo: PageInfo!
  lastId: ID
  end: FeedEnd
}

type Viewer {
  badges: Badges!
  homeFeed(first: Int = 20): PostConnection!
}

type Query {
  viewer: Viewer!
}
`
