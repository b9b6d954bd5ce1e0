// Tells what happens to versions while a cluster runs, for a person who watches `winnow up`.

import { systemClock } from "@winnow/core";
import type { Clock } from "@winnow/core";
import type { LocalCluster } from "./local-cluster.ts";

/**
 * The answer of `GET /v1/models`.
 *
 * @internal tests call it
 */
export interface ModelList {
  readonly models: readonly {
    readonly name: string;
    readonly versions: readonly { readonly version: string; readonly state: string }[];
  }[];
}

/**
 * A line for each version that has begun or stopped answering since the previous list.
 * @internal tests call it
 */
export function versionNews(before: ModelList, now: ModelList): string[] {
  const [were, are] = [answeringOf(before), answeringOf(now)];
  return [
    ...[...are].filter((name) => !were.has(name)).map((name) => `${name} answers now`),
    ...[...were].filter((name) => !are.has(name)).map((name) => `${name} is gone`),
  ];
}

function answeringOf({ models }: ModelList): ReadonlySet<string> {
  const names = models.flatMap(({ name, versions }) =>
    versions
      .filter(({ state }) => state === "AVAILABLE")
      .map(({ version }) => `${name}, version ${version},`),
  );
  return new Set(names);
}

const LOOK_INTERVAL_MS = 1000;

/** Tells changes of a router's models until the signal aborts; a router that does not answer has none. */
export async function watchVersions(
  router: Pick<LocalCluster, "url" | "client">,
  tell: (line: string) => void,
  { signal, clock = systemClock }: { readonly signal: AbortSignal; readonly clock?: Clock },
): Promise<void> {
  let known = await listOf(router);
  while (!signal.aborted) {
    await new Promise<void>((resolve) => {
      clock.setTimer(LOOK_INTERVAL_MS, resolve);
    });
    const now = await listOf(router);
    if (now === undefined || signal.aborted) continue;
    for (const line of versionNews(known ?? now, now)) tell(line);
    known = now;
  }
}

async function listOf({
  url,
  client,
}: Pick<LocalCluster, "url" | "client">): Promise<ModelList | undefined> {
  try {
    const { status, text } = await client.ask(`${url}/v1/models`);
    return status === 200 ? (JSON.parse(text) as ModelList) : undefined;
  } catch {
    return undefined;
  }
}
