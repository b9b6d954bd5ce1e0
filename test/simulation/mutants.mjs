// Shows that the simulation can fail: it puts one fault at a time into the sources as they are loaded, and
// expects that some seed fails that passes without it. Faults that a unit test or a transcript shows at once,
// or only one seed in thousands, are not in the list.
//  `npm run simulate:mutants -- grace` runs those whose name has this word, `-- --texts` none: it tells
//  which of them no longer fit the sources.

import { readFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { loadSources } from "./source-loading.mjs";

const SEEDS_MAX = 200;
const campaign = path.join(import.meta.dirname, "simulation-campaign.ts");

/**
 * Each has a name, the mode that shows the fault, the file, the text and its replacement; for faults that are
 * rarely seen, also the kinds of injected faults that show it (default: any), or a seed to begin with
 * (default: 1).
 */
const MUTANTS = [
  {
    name: "a filter that is known of a partition is taken for every other filter of it",
    mode: "safety",
    file: "packages/worker/src/compute/filters/filter-cache.ts",
    text: "return this.#byPartition.get(partition)?.get(text);",
    replacement: "return this.#byPartition.get(partition)?.values().next().value;",
  },
  {
    name: "asks of equal k are joined, their filters forgotten",
    mode: "safety",
    file: "packages/worker/src/compute/search/scan-answers.ts",
    text: "last.rowsOnly === rowsOnly && last.filters?.[0] === filters?.[0];",
    replacement: "last.rowsOnly === rowsOnly;",
  },
  {
    name: "attributes of an ask begin where those of the one before it do, filters or not",
    mode: "safety",
    file: "packages/worker/src/compute/search/scan-answers.ts",
    text: "if (wantsTexts) firstText += count;",
    replacement: "",
  },
  {
    name: "a filter that leaves fewer items than k is taken for a worker's fault",
    mode: "liveness",
    file: "packages/router/src/program/search/top-k-fault.ts",
    text: "excluded.length + filters.length + included.length === 0",
    replacement: "excluded.length + included.length === 0",
  },
  {
    name: "rows of added items are taken from a content that adds others of these ids",
    mode: "safety",
    file: "packages/worker/src/replicas/assignment.ts",
    text: "return partition < partitions && partitions === ownPartitionsOf(b, table);",
    replacement: "return partitions === ownPartitionsOf(b, table);",
  },
  {
    name: "no grace for versions: given up and unloaded at once",
    mode: "liveness",
    file: "packages/worker/src/worker-settings.ts",
    text: "versionGraceMs: Math.max(2 * deadlineMs, options.rollbackWindowMs ?? 0)",
    replacement: "versionGraceMs: 0",
  },
  {
    name: "a new default as soon as every partition has one replica",
    mode: "liveness",
    from: 30,
    file: "packages/cluster/src/default-version/rollout.ts",
    text: "ready > 0 && ready === lasting.length && lastingReplicasMin >= Math.max(1, wantedReplicas)",
    replacement: "lastingReplicasMin >= 1",
  },
  {
    name: "a new version waits for a worker that vanished while its program was fetched",
    mode: "safety",
    from: 13_500_441,
    file: "packages/router/src/versions/program-store.ts",
    text: "if (asked === undefined || this.#isThere(entry, asked.source)) return;",
    replacement: "return;",
  },
  {
    name: "a new version waits for a worker whose machine came back under its address",
    mode: "safety",
    from: 13_504_398,
    file: "packages/router/src/versions/program-store.ts",
    text: "source.address === address && source.streamNumber === streamNumber",
    replacement: "source.address === address",
  },
  {
    name: "questions of a worker that died that come out of the budget for second attempts",
    mode: "liveness",
    faults: ["crash worker in a burst"],
    file: "packages/router/src/scatter/scatter.ts",
    text: 'new Set(["DISCONNECTED", "NOT_OWNER", "NO_VERSION"])',
    replacement: "new Set([])",
  },
  {
    name: "exclusions of one instance that shorten the lists of all",
    mode: "safety",
    file: "packages/router/src/program/search/gather.ts",
    text: "width = Math.max(width, count);",
    replacement: "width = Math.min(width || shape.k, count);",
  },
  {
    name: "partial answers to everybody",
    mode: "safety",
    faults: ["crash worker", "drain worker", "lose device"],
    file: "packages/router/src/scatter/scatter.ts",
    text: "if (failed && !this.#attempt.allowPartial) {",
    replacement: "if (false) {",
  },
  {
    name: "checksums that nobody compares",
    mode: "safety",
    faults: ["misread disk"],
    file: "packages/cluster/src/routing/routed-table.ts",
    text: "if (checksum === undefined) return false;",
    replacement: "return false;",
  },
  {
    name: "equal scores in any order",
    mode: "safety",
    file: "packages/core/src/top-k.ts",
    text: "if (score === otherScore) return row < otherRow;",
    replacement: "if (score === otherScore) return false;",
  },
  {
    name: "a lower incarnation that is taken for an older process, whoever lives",
    mode: "liveness",
    faults: ["set clock back", "forge store records"],
    file: "packages/cluster/src/announcement/succession.ts",
    text: "met < current && isCurrentAnswering",
    replacement: "met < current",
  },
  {
    name: "a record in the store that is believed though nobody answers for it",
    mode: "liveness",
    faults: ["forge store records"],
    file: "packages/worker/src/worker-identity.ts",
    text: "if (answer?.workerId === this.#workerId && this.#isAbove(answer)) this.#stepDown(answer);",
    replacement: "if (true) this.#stepDown(answer ?? asked);",
  },
  {
    name: "files that are replaced in place and that nobody reads anew",
    mode: "liveness",
    faults: ["replace version"],
    file: "packages/worker/src/replicas/replica-set.ts",
    text: "held.stamp === found.stamp",
    replacement: "true",
  },
  {
    name: "queries that any content of their version answers",
    mode: "safety",
    faults: ["replace version", "slow link"],
    file: "packages/worker/src/replicas/replica-set.ts",
    text: "find((held) => openedOf(held)?.fingerprint === key.fingerprint)",
    replacement: "find((held) => openedOf(held) !== undefined)",
  },
  {
    name: "labels that mean the default version",
    mode: "safety",
    faults: ["move label", "publish version"],
    file: "packages/router/src/versions/version-resolution.ts",
    text: "label === undefined ? version : context.versionOfLabel(target.model, label)",
    replacement: "version",
  },
  {
    name: "a warm-up that never ends",
    mode: "safety",
    faults: ["publish version"],
    file: "packages/router/src/versions/warm-up.ts",
    text: "this.#done.add(loaded);",
    replacement: "",
  },
  {
    name: "vocabularies that nobody holds to their tables",
    mode: "safety",
    faults: ["publish flawed version"],
    file: "packages/model/src/saved-model/graph/vocabulary-reach.ts",
    text: "if (unused <= 0) return;",
    replacement: "return;",
  },
  {
    name: "fingerprints that leave the assets out",
    mode: "safety",
    faults: ["spoil assets"],
    file: "packages/model/src/saved-model/version-directory.ts",
    text: "for (const name of [...files.keys()].toSorted()) {",
    replacement:
      "for (const name of [...files.keys()].filter((each) => !each.startsWith(ASSETS))) {",
  },
  {
    name: "a models order that reaches only those who are there when it is given",
    mode: "safety",
    faults: ["order models", "withdraw order", "crash worker", "scale up"],
    file: "packages/router/src/versions/model-orders.ts",
    text: "      this.#passLater();\n      this.pass();",
    replacement: "      this.#passLater();",
  },
  {
    name: "replicas that were misread and are kept",
    mode: "liveness",
    faults: ["misread disk"],
    file: "packages/worker/src/replicas/proof/version-proof.ts",
    text: "if (shares !== undefined && !haveEqualShares(shares, loaded.shares)) replicas.push(key);",
    replacement: "",
  },
];

/** Runs a campaign until a seed breaks something. */
async function firstFailure(sources, { mode, faults, longestMs }, { from, seeds }) {
  const lines = [];
  const { failed } = await sources.module.runCampaign({
    mode,
    from,
    seeds,
    faults,
    longestMs,
    failuresMax: 1,
    reductionsMax: 0,
    isVerbose: false,
    print: (line) => lines.push(...line.split("\n")),
    nowMs: () => performance.now(),
  });
  const why = lines.find((line) => line.startsWith("  ")) ?? "";
  return failed.length === 0 ? undefined : { seed: failed[0], why: why.slice(1, 120) };
}

/** Describes what is wrong with the simulation; `undefined` if it noticed the mutant. */
async function tryMutant(mutant, sound) {
  const { name, from = 1, file, text, replacement } = mutant;
  let found = 0;
  const sources = await loadSources(campaign, (changed, original) => {
    if (changed !== file) return undefined;
    found = original.split(text).length - 1;
    return original.replace(text, () => replacement);
  });
  try {
    if (found !== 1) return `${file} has ${found} times "${text}"`;
    const failure = await firstFailure(sources, mutant, { from, seeds: SEEDS_MAX });
    if (failure === undefined) return `nobody noticed in ${SEEDS_MAX} seeds`;
    const without = await firstFailure(sound, mutant, { from: failure.seed, seeds: 1 });
    if (without !== undefined) return `seed ${failure.seed} fails without it too:${without.why}`;
    process.stdout.write(`${name}: seed ${failure.seed},${failure.why}\n`);
    return undefined;
  } finally {
    await sources.close();
  }
}

/** In words which mutants do not fit the sources any more. */
function strangers() {
  const root = path.join(import.meta.dirname, "../..");
  return MUTANTS.flatMap(({ name, file, text }) => {
    const found = readFileSync(path.join(root, file), "utf8").split(text).length - 1;
    return found === 1 ? [] : [`${name}: ${file} has ${found} times "${text}"`];
  });
}

/** In words what is wrong with the mutants that have all these words in their name: nobody noticed, or there are none. */
async function survivorsOf(words) {
  const wanted = MUTANTS.filter(({ name }) => words.every((word) => name.includes(word)));
  if (wanted.length === 0) return [`none has ${words.join(" and ")} in its name`];
  const survivors = [];
  const sound = await loadSources(campaign, () => undefined);
  for (const mutant of wanted) {
    const amiss = await tryMutant(mutant, sound);
    if (amiss !== undefined) survivors.push(`${mutant.name}: ${amiss}`);
  }
  await sound.close();
  return survivors;
}

const words = process.argv.slice(2);
const survivors = words[0] === "--texts" ? strangers() : await survivorsOf(words);
if (survivors.length > 0) {
  process.stdout.write(`survivors:\n${survivors.join("\n")}\n`);
  process.exitCode = 1;
}
