// What workers load, announce and give up, as directories and workers come and go: courses that a
// person can check by eye. Workers share one disk and one membership, on virtual time: reading a
// partition takes 100 ms, two are read at a time, and every worker gets a new view every 50 ms.
// Each partition has two replicas; a replica that is given up is kept for 500 ms, a version that is
// given up for 700 ms.
//
// `v1` is the directory of version 1, `v1b` what is later put in its place, `p3` a partition.

import path from "node:path";
import { WinnowError } from "@winnow/core";
import { transcriptTests } from "../../../../test/transcript.ts";
import { fakeTable } from "../compute/doubles/fake-compute.ts";
import { FakeCluster } from "./doubles/fake-cluster.ts";
import type { FakeWorker } from "./doubles/fake-cluster.ts";

const PARTITIONS = 6;
/** Time after which all that an event has begun is over. */
const SETTLED_MS = 1000;
const DRAIN = { drainSettleMs: 100, drainAbsentMs: 100, drainHoldMsMax: 60_000 };

transcriptTests(path.join(import.meta.dirname, "transcripts"), () => {
  const course = new Course();
  return (event) => course.play(event);
});

/** What the transcript says of a worker, by subject: `v1` → `ready with 3 of 6 partitions`. */
interface Told {
  requests: number;
  facts: ReadonlyMap<string, string>;
  drainingSinceMs: number | undefined;
}

/** A cluster, the events that happen to it, and what the transcript has said of it. */
class Course {
  readonly #cluster = new FakeCluster();
  readonly #told = new Map<FakeWorker, Told>();

  constructor() {
    this.#cluster.plan.loadMs = 100;
  }

  async play(event: string): Promise<readonly string[]> {
    const [verb = "", ...words] = event.split(" ");
    const [first = ""] = words;
    switch (verb) {
      case "versions":
        this.#publish(words);
        return [];
      case "replace":
        this.#cluster.replace(numberOf(first), directoryOf(`${first}b`));
        return [];
      case "spoil":
        this.#spoil(event.slice("spoil ".length));
        return [];
      case "start":
        for (const name of words.filter((word) => /^w\d$/.test(word))) this.#start(name, event);
        return [];
      case "drain":
        this.#drain(this.#named(first));
        return [];
      case "kill":
        this.#cluster.kill(this.#named(first));
        return [];
      case "pass":
        return this.#pass(Number(first));
      case "settle":
        return (await this.#pass(SETTLED_MS)).filter((line) => line.includes(" holds "));
      default:
        throw new RangeError(`No such event: ${event}`);
    }
  }

  #publish(names: readonly string[]): void {
    const table = [fakeTable("movies", PARTITIONS)];
    this.#cluster.setVersions(Object.fromEntries(names.map((name) => [numberOf(name), table])));
  }

  /** `spoil v2 p3: DATA_LOSS rows are cut short` fails a load; without a partition, the open. */
  #spoil(words: string): void {
    const [, name = "", partition, code, message = ""] =
      /^(v\w+)(?: p(\d))?: ([A-Z_]+) (.+)$/.exec(words) ?? [];
    const target = directoryOf(name) + (partition === undefined ? "" : `#0/${partition}`);
    this.#cluster.plan.failures.set(target, new WinnowError(code as "DATA_LOSS", message));
  }

  #start(name: string, event: string): void {
    const partitions = /with memory for (\d+)/.exec(event)?.[1];
    const swapReplicas = /(\d+) replicas? during swaps/.exec(event)?.[1];
    if (swapReplicas !== undefined) this.#cluster.settings = { swapReplicas: Number(swapReplicas) };
    const plan = partitions === undefined ? {} : { capacityBytes: Number(partitions) * 100 };
    const worker = this.#cluster.add(name, plan);
    this.#told.set(worker, { requests: 0, facts: new Map(), drainingSinceMs: undefined });
  }

  #drain(worker: FakeWorker): void {
    this.#told.get(worker)!.drainingSinceMs = this.#cluster.clock.nowMs();
    this.#cluster.drain(worker);
  }

  #named(name: string): FakeWorker {
    const worker = [...this.#cluster.workers.values()].find(({ id }) => id === name);
    if (worker === undefined) throw new RangeError(`No worker ${name}`);
    return worker;
  }

  /** Time passes; gives each change when it is seen, and in the end what each worker holds. */
  async #pass(durationMs: number): Promise<readonly string[]> {
    const lines: string[] = [];
    await this.#cluster.run(durationMs, () => {
      const time = `${this.#cluster.clock.nowMs()} ms`.padStart(7);
      for (const worker of this.#cluster.workers.values()) {
        for (const news of this.#newsOf(worker)) lines.push(`${time}  ${worker.id} ${news}`);
      }
    });
    const held = [...this.#cluster.workers.values()].map(
      ({ id, compute }) => `${id} holds ${replicas(compute.held) || "nothing"}`,
    );
    return [...lines, ...held.toSorted()];
  }

  /** What a worker asked its device for, and what is new in its announcement. */
  #newsOf(worker: FakeWorker): readonly string[] {
    const told = this.#told.get(worker)!;
    const work = inOneLine(worker.compute.requests.slice(told.requests));
    const facts = factsOf(worker, told.drainingSinceMs);
    const news = [...facts].filter(([subject, fact]) => told.facts.get(subject) !== fact);
    const past = [...told.facts.keys()].filter((subject) => !facts.has(subject));
    told.requests = worker.compute.requests.length;
    told.facts = facts;
    return [
      ...work,
      ...news.map(([subject, fact]) => `says: ${subject} ${fact}`),
      ...past.map((subject) => `says: ${subject} gone`),
    ];
  }
}

/** What a worker announces, by subject. */
function factsOf(worker: FakeWorker, drainingSinceMs?: number): ReadonlyMap<string, string> {
  const facts = new Map<string, string>();
  for (const { version, fingerprint, state, error, tables } of worker.announcement().versions) {
    if (fingerprint === undefined && error === undefined) continue;
    const subject = fingerprint === undefined ? `v${version}, unread,` : nameOf(fingerprint);
    const held = tables[0]?.held.map(({ partition }) => `p${partition}`).join(" ");
    const assignment = state === "ready" ? ` with ${held}` : "";
    facts.set(subject, error === undefined ? state + assignment : `${state}, ${error.message}`);
  }
  const serving = worker.control.serving.get("m");
  if (serving !== undefined) facts.set("default", nameOf(serving.fingerprint));
  if (drainingSinceMs !== undefined) {
    const { isOver } = worker.control.drainHold(drainingSinceMs, DRAIN);
    facts.set("drain", isOver ? "may end" : "held up");
  }
  return facts;
}

/** `load /m/1#0/3`, `load /m/1#0/4` → `loads v1 p3 p4`: neighbours of one kind share a line. */
function inOneLine(requests: readonly string[]): readonly string[] {
  const lines: { readonly head: string; readonly partitions: string[] }[] = [];
  for (const request of requests) {
    const [, verb = "", content = "", partition] =
      /^(\w+) \/m\/(\w+)(?:#0\/(\d+))?$/.exec(request) ?? [];
    const head = `${verb}s v${content}`;
    const last = lines.at(-1);
    const line = last?.head === head ? last : { head, partitions: [] };
    if (line !== last) lines.push(line);
    if (partition !== undefined) line.partitions.push(` p${partition}`);
  }
  return lines.map(({ head, partitions }) => head + partitions.join(""));
}

/** `/m/1#0/3` → `v1 p3`; what is held of one version stands together. */
function replicas(held: readonly string[]): string {
  return inOneLine(held.map((replica) => `hold ${replica}`))
    .map((line) => line.replace("holds ", ""))
    .join(", ");
}

const numberOf = (name: string): number => Number(/\d+/.exec(name)?.[0]);
const directoryOf = (name: string): string => name.replace("v", "/m/");
const nameOf = (print: string): string => print.replace("content of /m/", "v");
