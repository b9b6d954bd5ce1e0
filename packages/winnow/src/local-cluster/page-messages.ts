// What routers that share their ports, and the process that started them, tell each other about metrics. A scrape
// comes to one of the routers, by chance, but must show all of them:
//
//   router r1 ──asks──▶ supervisor ──wants──▶ every router ──gives──▶ supervisor ──all──▶ router r1
//
// The messages take the channel that Node opens between parent and child.

/** A router's page; `undefined` if it did not give it in time. */
export interface RouterPage {
  /** `r0` */
  readonly name: string;
  readonly text: string | undefined;
}

/** A message about pages. */
export type PageMessage =
  | { readonly winnow: "pages asked" }
  | { readonly winnow: "page wanted"; readonly round: number }
  | { readonly winnow: "page given"; readonly round: number; readonly text: string }
  | { readonly winnow: "pages"; readonly pages: readonly RouterPage[] };

/** The message, if it is one about pages. */
export function pageMessage(message: unknown): PageMessage | undefined {
  const isOne = typeof message === "object" && message !== null && "winnow" in message;
  return isOne ? (message as PageMessage) : undefined;
}

/** The name of a router among those that share its ports. */
export const sharingName = (index: number): string => `r${index}`;
