// Which version becomes the default, as workers load, fail, drain and end: transcripts that a
// person can check by eye. They show what a process serves that has run from the start, and beside
// it what a process would serve that starts at that moment.
//
// A worker says `v2 loading 0 1`: of version 2 it holds partitions 0 and 1, of 4. `v1b` is another
// content of version 1, `v2?` one that could not be read. Without figures `ready` and `unloading`
// mean all partitions, `loading` and `failed` none.

import path from "node:path";
import type { VersionKey } from "@winnow/core";
import { transcriptTests } from "../../../../test/transcript.ts";
import type { VersionHolding } from "../announcement/announcement.ts";
import { announced } from "../fixtures/announcement-words.ts";
import type { HoldingWords, WorkerWords } from "../fixtures/announcement-words.ts";
import { rolloutsOf, servingVersion } from "./rollout.ts";
import type { VersionRollout } from "./rollout.ts";

const REPLICATION = 2;
const STATES: ReadonlySet<string> = new Set(["loading", "ready", "failed", "unloading"]);

transcriptTests(path.join(import.meta.dirname, "transcripts"), () => {
  const workers = new Map<string, WorkerWords>();
  let current: VersionKey | undefined;

  return (event) => {
    happen(workers, event);
    const announcements = [...workers.values()].map(announced);
    const settings = { replication: REPLICATION };
    const rollouts = rolloutsOf("movies", announcements, settings);
    const serving = servingVersion("movies", announcements, { current, ...settings });
    const fresh = servingVersion("movies", announcements, { current: undefined, ...settings });
    const move = nameOf(serving) === nameOf(current) ? "" : ` (was ${nameOf(current)})`;
    current = serving;
    const beside =
      nameOf(fresh) === nameOf(serving) ? "" : `; a process that starts now: ${nameOf(fresh)}`;
    return [...rollouts.map(progressOf), `serves ${nameOf(serving)}${move}${beside}`];
  };
});

/** Changes what the workers say: `w0 w1: v1 ready`, `w0 drains`. */
function happen(workers: Map<string, WorkerWords>, event: string): void {
  const [, ids = "", words = ""] = /^((?:w\d ?)+):? (.+)$/.exec(event) ?? [];
  if (ids === "") throw new RangeError(`No such event: ${event}`);
  for (const id of ids.split(" ").filter((each) => each !== "")) {
    if (words === "gone") workers.delete(id);
    else if (words === "starts") workers.set(id, { id, state: "starting" });
    else if (words === "drains") workers.set(id, { ...workers.get(id), id, state: "draining" });
    else {
      const state = workers.get(id)?.state === "draining" ? "draining" : "ready";
      workers.set(id, { id, state, versions: words.split(", ").map(holdingOf) });
    }
  }
}

/** `v2 loading 0 1` or `v1 ready serving`. */
function holdingOf(text: string): HoldingWords {
  const [name = "", ...words] = text.split(" ");
  const [, number, content = ""] = /^v(\d)([a-z?]?)$/.exec(name) ?? [];
  const state = words.find((word) => STATES.has(word));
  const held = words.filter((word) => /^\d$/.test(word)).map(Number);
  if (number === undefined || state === undefined) throw new RangeError(`No version: ${text}`);
  return {
    version: Number(number),
    print: content === "?" ? undefined : `v${number}${content}`,
    state: state as VersionHolding["state"],
    ...(held.length > 0 || state === "loading" || state === "failed" ? { held } : {}),
    ...(words.includes("serving") ? { serving: true } : {}),
  };
}

function progressOf(rollout: VersionRollout): string {
  const { ready, failed, waiting, replicasMin, lastingReplicasMin } = rollout;
  const staying = lastingReplicasMin === replicasMin ? "" : `, ${lastingReplicasMin} that stay`;
  return [
    `${nameOf(rollout.key).padEnd(3)} ready on ${ready} of ${ready + failed + waiting}`,
    ...(failed === 0 ? [] : [`failed on ${failed}`]),
    `each partition on at least ${replicasMin}${staying}`,
    ...(rollout.wanted ? [] : ["wanted by nobody"]),
    ...(rollout.complete ? ["complete"] : []),
  ].join(", ");
}

/** Contents are named like versions here: `v1`, `v1b`. */
function nameOf(key: VersionKey | undefined): string {
  return key === undefined ? "nothing" : key.fingerprint;
}
