// The harness's side of the fault links of a cluster, by name: `router0>w1`, `w2>redis`.

import { ChildScript } from "../processes/child-script.ts";
import type { LinkFault, LinkTarget } from "./fault-link.ts";
import type { LinkOrder, LinkReport } from "./link-process.ts";

const ANSWERED_WITHIN_MS = 20_000;

/** Links in a process of their own. */
export class FaultLinks {
  readonly #child: ChildScript<LinkOrder, LinkReport>;
  readonly #ports = new Map<string, number>();
  /** Orders go one after the other: answers carry no names. */
  #last: Promise<unknown> = Promise.resolve();

  private constructor(child: ChildScript<LinkOrder, LinkReport>) {
    this.#child = child;
  }

  static async start(): Promise<FaultLinks> {
    const child = new ChildScript<LinkOrder, LinkReport>("links/link-process.ts");
    await child.next("ready", ANSWERED_WITHIN_MS);
    return new FaultLinks(child);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Opens a link and gives the port of the loopback that leads through it. */
  async open(name: string, target: LinkTarget): Promise<number> {
    const { port } = await this.#order({ type: "open", name, target });
    this.#ports.set(name, port!);
    return port!;
  }

  /** Names of the links whose name matches. */
  named(pattern: RegExp): string[] {
    return [...this.#ports.keys()].filter((name) => pattern.test(name));
  }

  /** Gives every link whose name matches this fault, instead of the one it had. */
  async set(pattern: RegExp, fault: LinkFault): Promise<void> {
    await this.#order({ type: "set", names: this.#known(pattern), fault });
  }

  /** Removes all faults. */
  async heal(): Promise<void> {
    if (this.#ports.size > 0) await this.set(/./, {});
  }

  /** Resets the open connections of links once. */
  async reset(pattern: RegExp): Promise<void> {
    await this.#order({ type: "reset", names: this.#known(pattern) });
  }

  /** Redirects links, and resets their open connections. */
  async retarget(pattern: RegExp, target: LinkTarget): Promise<void> {
    await this.#order({ type: "retarget", names: this.#known(pattern), target });
  }

  stop(): void {
    this.#child.kill();
  }

  #known(pattern: RegExp): string[] {
    const names = this.named(pattern);
    if (names.length === 0) throw new Error(`no link is named like ${pattern}`);
    return names;
  }

  async #order(order: LinkOrder): Promise<Extract<LinkReport, { type: "done" }>> {
    const answer = this.#last.then(async () => {
      const done = this.#child.next("done", ANSWERED_WITHIN_MS);
      this.#child.send(order);
      return done;
    });
    this.#last = answer.catch(() => undefined);
    const done = await answer;
    if (done.error !== undefined) throw new Error(done.error);
    return done;
  }
}
