// How a router that shares its ports starts. At first all of them listen at once, as a router alone does, so that people can
// ask what is loading. One that is started again, while others answer, listens when it can answer as well: until then, no
// connection comes to it. `winnow up` is told by each when it can.

import { type Clock, sleep } from "@winnow/core";

/** A message from a router that shares its ports to the process that started it: it can answer. */
export const READY_MESSAGE = "winnow:ready";

/** What says whether a router can answer. */
interface ReadyRouter {
  readonly ready: boolean;
}

const POLL_MS = 20;
/** `winnow up` looks as often. A router without models is never ready, and is to wake seldom. */
const TELL_POLL_MS = 100;
/** After which a router listens though it cannot answer: maybe none can, and people should be told why. */
const LISTEN_AFTER_MS = 30_000;

/** Resolves when the router can answer, which may be never, or after a while. */
export async function readyToListen(router: ReadyRouter, clock: Clock): Promise<void> {
  const endMs = clock.nowMs() + LISTEN_AFTER_MS;
  while (!router.ready && clock.nowMs() < endMs) await sleep(clock, POLL_MS);
}

/** Tells the process that started this one when the router can answer. */
export async function tellReady(
  router: ReadyRouter,
  clock: Clock,
  parent: { send(message: string): void },
): Promise<void> {
  while (!router.ready) await sleep(clock, TELL_POLL_MS);
  parent.send(READY_MESSAGE);
}
