// All fault links of a cluster, in a separate process, so that the harness does not slow them down.

import { FaultLink, type LinkFault, type LinkTarget } from "./fault-link.ts";

/** Messages to the process. */
export type LinkOrder =
  | { readonly type: "open"; readonly name: string; readonly target: LinkTarget }
  | { readonly type: "set"; readonly names: readonly string[]; readonly fault: LinkFault }
  | { readonly type: "retarget"; readonly names: readonly string[]; readonly target: LinkTarget }
  | { readonly type: "reset"; readonly names: readonly string[] }
  | { readonly type: "close"; readonly names: readonly string[] };

/** What it answers: one message per order. */
export type LinkReport =
  | { readonly type: "ready" }
  | { readonly type: "done"; readonly port?: number; readonly error?: string };

const links = new Map<string, FaultLink>();

async function obey(order: LinkOrder): Promise<LinkReport> {
  if (order.type === "open") {
    const link = await FaultLink.open(order.target);
    links.set(order.name, link);
    return { type: "done", port: link.port };
  }
  for (const name of order.names) {
    const link = links.get(name);
    if (link === undefined) return { type: "done", error: `no link ${name}` };
    if (order.type === "set") await link.set(order.fault);
    if (order.type === "retarget") link.retarget(order.target);
    if (order.type === "reset") link.reset();
    if (order.type === "close") {
      link.close();
      links.delete(name);
    }
  }
  return { type: "done" };
}

async function answer(order: LinkOrder): Promise<void> {
  process.send?.(await obey(order));
}

let last = Promise.resolve();
process.on("message", (order: LinkOrder) => {
  last = last.then(() => answer(order));
});
process.on("disconnect", () => process.exit(0));
process.send?.({ type: "ready" } satisfies LinkReport);
