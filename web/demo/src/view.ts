/** Side says which of the two phones something is about. */
export type Side = 'left' | 'right';

/** What a tab of a phone is given. */
export interface View {
  readonly side: string;
  /** The number of the connection: with each new one a list is read again. */
  readonly connection: number;
  /** How often the visitor has opened the tab. */
  readonly opened: number;
  /** Whether the tab is on the screen. */
  readonly shown: boolean;
  readonly tell: (reason: unknown) => void;
  /** Shows the rows behind the number of a source. */
  readonly explain: (source: string) => void;
}
