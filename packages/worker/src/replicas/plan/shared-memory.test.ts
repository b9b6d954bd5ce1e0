// What memory a version may expect of others: that must not depend on what other workers say at the moment.

import { expect, test } from "vitest";

import type { OpenedVersion } from "../../compute/compute.ts";
import { emptyReplicaSet, withFound, withReplica, withVersion } from "../replica-set.ts";
import type { HeldVersion, ReplicaSet } from "../replica-set.ts";
import { expectedBytes } from "./shared-memory.ts";
import type { ReplicaFacts } from "./replica-facts.ts";

const BYTES = 100;

/** A set of open versions 1, 2, … of one model, with so many replicas each. */
function setOf(counts: readonly number[]): { set: ReplicaSet; held: readonly HeldVersion[] } {
  let set: ReplicaSet = emptyReplicaSet;
  const held = counts.map((count, at) => {
    const version = at + 1;
    set = withFound(set, { model: "m", version, directory: `/m/${version}`, stamp: "a" });
    const found = [...set.versions.values()].at(-1)!;
    const opened = { tables: [] } as unknown as OpenedVersion;
    let open: HeldVersion = { ...found, life: { phase: "open", opened } };
    for (let key = 0; key < count; key += 1) {
      const loaded = { bytes: BYTES, rowBytes: BYTES, shares: [], bytesRead: 0, elapsedMs: 0 };
      open = withReplica(open, key, { phase: "ready", loaded });
    }
    set = withVersion(set, open);
    return open;
  });
  return { set, held };
}

test.each([[[1]], [[2]], [[]]])(
  "a version that follows may expect what the others that follow have, whichever come first: %j last",
  (last) => {
    const { set, held } = setOf([6, 3, 2]);
    const [serving, second, third] = held as [HeldVersion, HeldVersion, HeldVersion];
    const swap = {
      serving: serving.id,
      followers: new Set([second.id, third.id]),
      isReduced: false,
      last: new Set(last.map((at) => held[at]!.id)),
      isShort: false,
    };
    const swapping = { ...set, swaps: new Map([["m", swap]]) };
    const facts = { sharesMemory: () => true, fewerReplicas: () => [0, 1, 2, 3] };
    const expected = (of: HeldVersion): number =>
      expectedBytes(swapping, of, facts as unknown as ReplicaFacts);

    expect(expected(third)).toBe((6 - 4 + 3) * BYTES);
    expect(expected(second)).toBe((6 - 4 + 2) * BYTES);
    expect(expected(serving)).toBe((3 + 2) * BYTES);
  },
);

test("nothing is expected where versions do not share memory", () => {
  const { set, held } = setOf([6, 3]);
  const facts = { sharesMemory: () => false, fewerReplicas: () => [] };

  expect(expectedBytes(set, held[1]!, facts as unknown as ReplicaFacts)).toBe(0);
});
