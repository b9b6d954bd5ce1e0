// What was seen goes into the retrieval's exclusions as it stands in the store, within budget and limits; whatever
// is missing is told.

import type { SeenItems, SeenMembers, SeenQuestion } from "@winnow/cluster";
import { keyBytes } from "@winnow/cluster";
import { StringColumn, WinnowError, fingerprint, stringTensor, tensor } from "@winnow/core";
import type { PipelineStage, SeenStage, Tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { RequestContext } from "../request-context.ts";
import type { PinnedModel } from "../predictor.ts";
import type { PipelineRun } from "./pipeline-run.ts";
import { runPipeline } from "./pipeline-execution.ts";
import { endOfListed, excludedWith, readSeen } from "./seen-items.ts";
import { PIPELINE_BOUNDS } from "./fixtures/pipeline-bounds.ts";

const stage: SeenStage = {
  kind: "seen",
  key: "seen:{user}",
  type: "set",
  countMax: 4,
  budgetMs: 20,
};

/** A store of sets in memory. */
class MemorySeenItems implements SeenItems {
  readonly asked: SeenQuestion[] = [];
  readonly #sets: Readonly<Record<string, readonly string[]>>;

  constructor(sets: Readonly<Record<string, readonly string[]>>) {
    this.#sets = sets;
  }

  async read(question: SeenQuestion): Promise<SeenMembers> {
    this.asked.push(question);
    const all = this.#sets[question.key] ?? [];
    const members = all.slice(0, question.countMax).map((text) => Buffer.from(text));
    return { members, isCut: all.length > question.countMax };
  }

  close(): void {}
}

interface Words {
  readonly users: readonly string[];
  readonly store?: SeenItems | undefined;
  readonly stages?: readonly PipelineStage[];
  readonly exclude?: readonly Tensor[];
  readonly items?: "string" | "int64" | "int32";
  readonly limits?: PipelineRun["limits"];
  readonly clock?: ManualClock;
}

function runOf(words: Words): PipelineRun {
  const { users, store, stages = [stage], exclude, items = "string" } = words;
  const clock = words.clock ?? new ManualClock();
  const spec = (name: string, dtype: Tensor["dtype"]) =>
    ({ name, dtype, shape: [-1], value: 0, graphTensor: "" }) as const;
  const signature = {
    name: "serving_default",
    methodName: "",
    constants: [],
    steps: [],
    inputs: [spec("user", "string")],
    outputs: [spec("scores", "float32"), spec("ids", items)],
  };
  const none = { tables: [], vocabularies: [], denseModels: [] };
  const program = { fingerprint: fingerprint("f"), ...none, signatures: [signature] };
  const movies: PinnedModel = { model: "movies", version: 1, program, release: () => undefined };
  return {
    pipeline: { stages, outputs: { scores: "scores", ids: "ids" } },
    request: {
      signature,
      inputs: new Map([["user", stringTensor(users)]]),
      context: new RequestContext(clock, { timeoutMs: 1000 }),
      exclude,
    },
    pinned: new Map([["movies", movies]]),
    clock,
    ask: () => Promise.reject(new Error("nobody is asked")),
    ...PIPELINE_BOUNDS,
    limits: words.limits ?? PIPELINE_BOUNDS.limits,
    seenItems: store,
  };
}

const textsOf = (list: Tensor): readonly string[] =>
  list.data instanceof StringColumn ? list.data.toText() : Array.from(list.data, String);

async function excludedBy(words: Words) {
  const run = runOf(words);
  const outcomes = await readSeen(run);
  const { lists, isCut } = excludedWith(run, outcomes);
  const degradations = outcomes.flatMap((outcome) => outcome.degradations);
  return { lists: lists?.map(textsOf), isCut, degradations };
}

describe("items that users have seen", () => {
  test("are excluded for each instance beside what the request excludes", async () => {
    const store = new MemorySeenItems({ "seen:a": ["x", "y"], "seen:b%3Ac": ["z"] });
    const users = ["a", "b:c", "nobody", "a"];

    const shared = await excludedBy({ users, store, exclude: [stringTensor(["q"])] });
    const each = users.map((user) => stringTensor([`own ${user}`]));
    const own = await excludedBy({ users, store, exclude: each });

    const seen = [["x", "y"], ["z"], [], ["x", "y"]];
    const degradations: object[] = [];
    expect(shared).toEqual({
      lists: seen.map((ids) => ["q"].concat(ids)),
      isCut: false,
      degradations,
    });
    const expected = seen.map((ids, at) => [`own ${users[at]}`].concat(ids));
    expect(own).toEqual({ lists: expected, isCut: false, degradations });
    const keys = ["seen:a", "seen:b%3Ac", "seen:nobody"];
    expect(store.asked.map(({ key }) => key)).toEqual([...keys, ...keys]);
  });

  test("are refused, before they are copied, where all instances would exclude too much together", async () => {
    const store = new MemorySeenItems({ "seen:a": ["x"] });
    const own = stringTensor(Array.from({ length: 1000 }, (_, at) => `item ${at}`));
    const long = stringTensor(["y".repeat(2 ** 20)]);
    const room = { excludedIdsMax: 65_536, excludedBytesMax: 2 ** 21 };
    const excluded = (count: number, exclude: Tensor) =>
      excludedBy({
        users: Array.from({ length: count }, () => "a"),
        store,
        exclude: [exclude],
        limits: room,
      });

    const { lists } = await excluded(261, own);

    expect([lists?.length, lists?.[260]?.length]).toEqual([261, 1001]);
    await expect(excluded(262, own)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringMatching(/Cannot exclude 262262 ids .*send fewer instances/) as string,
    });
    await expect(excluded(64, long)).rejects.toThrow("at most 262144 ids and 67108864 bytes");
  });

  test("of several stages are excluded together", async () => {
    const store = new MemorySeenItems({ "seen:a": ["x"], "hidden:a": ["y"] });
    const stages = [stage, { ...stage, key: "hidden:{user}", type: "sorted_set" as const }];
    expect(await excludedBy({ users: ["a"], store, stages })).toMatchObject({
      lists: [["x", "y"]],
    });
    expect(store.asked.map(({ type }) => type)).toEqual(["set", "sorted_set"]);
  });

  test("leave a request's lists as they are where there are none", async () => {
    const none = { lists: undefined, isCut: false, degradations: [] };
    expect(await excludedBy({ users: ["a"], store: new MemorySeenItems({}) })).toEqual(none);
    expect(await excludedBy({ users: ["a"], stages: [] })).toEqual(none);
  });

  test("with integer ids leave out what can be no id", async () => {
    const sets = { "seen:a": ["7", "-9223372036854775808", "9223372036854775808", "1.5"] };
    const store = new MemorySeenItems(sets);
    for (const items of ["int64", "int32"] as const) {
      const own = [tensor("int32", [1], Int32Array.of(3))];
      const excluded = await excludedBy({ users: ["a"], store, items, exclude: own });
      expect(excluded).toMatchObject({ lists: [["3", "7", "-9223372036854775808"]] });
    }
  });

  test("leave ids of a wrong type for the retrieval to refuse", async () => {
    const store = new MemorySeenItems({ "seen:a": ["x"] });
    const own = [tensor("int64", [1], BigInt64Array.of(3n))];
    expect(await excludedBy({ users: ["a"], store, exclude: own })).toMatchObject({
      lists: [["3"]],
    });
  });

  test("are told as cut where a set has more, or a question has no room for more", async () => {
    const sets = { "seen:a": ["1", "2", "3", "4", "5"], "seen:b": ["1", "2", "3"] };
    const store = new MemorySeenItems(sets);
    expect(await excludedBy({ users: ["a"], store })).toEqual({
      lists: [["1", "2", "3", "4"]],
      isCut: false,
      degradations: [{ stage: "seen", reason: "cut" }],
    });
    const exclude = [stringTensor(["q"])];
    const few = { excludedIdsMax: 3, excludedBytesMax: 9999 };
    expect(await excludedBy({ users: ["b"], store, exclude, limits: few })).toEqual({
      lists: [["q", "1", "2"]],
      isCut: true,
      degradations: [],
    });
    const short = { excludedIdsMax: 99, excludedBytesMax: 10 };
    expect(await excludedBy({ users: ["b"], store, exclude, limits: short })).toMatchObject({
      lists: [["q", "1"]],
      isCut: true,
    });
  });

  test.each([
    ["unavailable", undefined],
    ["unavailable", new WinnowError("UNAVAILABLE", "gone")],
    ["type", new WinnowError("FAILED_PRECONDITION", "WRONGTYPE")],
    ["busy", new WinnowError("RESOURCE_EXHAUSTED", "too many")],
  ])("are told as %s where nobody tells them", async (reason, error) => {
    const store = error && { read: () => Promise.reject(error), close: () => undefined };
    expect(await excludedBy({ users: ["a"], store })).toEqual({
      lists: undefined,
      isCut: false,
      degradations: [{ stage: "seen", reason }],
    });
  });

  test("that cannot be read of one user take nothing from the others of the request", async () => {
    const sets = new MemorySeenItems({ "seen:a": ["x"], "seen:b": ["1", "2", "3", "4", "5"] });
    const store: SeenItems = {
      read: async (question) => {
        if (question.key === "seen:slow") await new Promise(() => undefined);
        if (question.key !== "seen:text") return sets.read(question);
        throw new WinnowError("FAILED_PRECONDITION", "WRONGTYPE");
      },
      close: () => undefined,
    };
    const clock = new ManualClock();
    const run = runOf({ users: ["slow", "a", "text", "b"], store, clock });

    const waiting = readSeen(run);
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
    clock.advance(20);
    const [outcome] = await waiting;

    expect(outcome!.lists.map(textsOf)).toEqual([[], ["x"], [], ["1", "2", "3", "4"]]);
    const reasons = outcome!.degradations.map(({ reason }) => reason);
    expect(reasons.toSorted()).toEqual(["cut", "late", "type"]);
  });

  test("are waited for within the budget alone, and leave no timer behind", async () => {
    const clock = new ManualClock();
    const silent = { read: () => new Promise<never>(() => undefined), close: () => undefined };
    const waiting = readSeen(runOf({ users: ["a"], store: silent, clock }));
    await Promise.resolve();
    clock.advance(20);
    const [outcome] = await waiting;
    expect(outcome).toMatchObject({
      degradations: [{ stage: "seen", reason: "late" }],
      elapsedMs: 20,
    });

    const other = new ManualClock();
    const run = runOf({ users: ["a"], store: new MemorySeenItems({}), clock: other });
    await readSeen(run);
    run.request.context.finish();
    expect(other.pendingTimers).toBe(0);
  });

  test("end with the request that asks for them", async () => {
    const silent = { read: () => new Promise<never>(() => undefined), close: () => undefined };
    const run = runOf({ users: ["a"], store: silent });
    const waiting = readSeen(run);
    run.request.context.abort(() => new WinnowError("CANCELLED", "left"));
    await expect(waiting).rejects.toThrow("left");
  });

  test("are refused for values that are no names, and for too many users at once", async () => {
    const store = new MemorySeenItems({});
    await expect(excludedBy({ users: ["a".repeat(513)], store })).rejects.toThrow(
      'Input "user" of instance 0 has 513 bytes; at most 512',
    );
    const users = Array.from({ length: 17 }, (_, at) => `u${at}`);
    const stages = [{ ...stage, countMax: 16_384 }];
    await expect(excludedBy({ users, store, stages })).rejects.toThrow("at most 262144 in all");
    await expect(excludedBy({ users: users.slice(1), store, stages })).resolves.toBeDefined();
    expect(store.asked).toHaveLength(16);
  });

  test("split a retrieval into questions that are each within the limits, in order", () => {
    const list = fc.array(fc.constantFrom("a", "bb", "cccc"), { maxLength: 5 });
    const limits = fc.record({
      excludedIdsMax: fc.integer({ min: 5, max: 12 }),
      excludedBytesMax: fc.integer({ min: 40, max: 60 }),
    });
    fc.assert(
      fc.property(fc.array(list, { minLength: 2, maxLength: 8 }), limits, (texts, most) => {
        const lists = texts.map((each) => stringTensor(each));
        let from = 0;
        while (from < lists.length) {
          const end = endOfListed(from, lists, most);
          const part = lists.slice(from, end);
          const size = (some: readonly Tensor[]) => [
            some.reduce((sum, { data }) => sum + data.length, 0),
            some.reduce((sum, each) => sum + keyBytes(each), 0),
          ];
          const isWithin = ([ids, bytes]: readonly number[]): boolean =>
            ids! <= most.excludedIdsMax && bytes! <= most.excludedBytesMax;
          expect(end).toBeGreaterThan(from);
          expect(isWithin(size(part))).toBe(true);
          expect(end === lists.length || !isWithin(size(lists.slice(from, end + 1)))).toBe(true);
          from = end;
        }
        expect(endOfListed(0, lists.slice(0, 1), most)).toBe(Infinity);
        expect(endOfListed(0, undefined, most)).toBe(Infinity);
      }),
    );
  });

  test("go with each instance into the questions of a pipeline, which explains them", async () => {
    const store = new MemorySeenItems({ "seen:a": ["x", "y"], "seen:b": ["y", "z", "w"] });
    const retrieve = { kind: "retrieve", model: "movies", signature: "serving_default" } as const;
    const names = { k: 2, inputs: [{ name: "user", from: "user" }], scores: "s", ids: "i" };
    const limits = { excludedIdsMax: 3, excludedBytesMax: 9999 };
    const run = runOf({
      users: ["a", "b", "c"],
      store,
      stages: [{ ...retrieve, ...names }, stage],
      limits,
    });
    const asked: object[] = [];

    const answer = await runPipeline({
      ...run,
      request: { ...run.request, explain: true },
      ask: async (_, { inputs, exclude }) => {
        const users = textsOf(inputs.get("user")!);
        asked.push({ users, exclude: exclude?.map(textsOf) });
        const shape = [users.length, 1];
        const outputs = new Map<string, Tensor>([
          ["s", tensor("float32", shape, new Float32Array(users.length))],
          ["i", stringTensor(users, shape)],
        ]);
        const version = { model: "movies", version: 1, fingerprint: fingerprint("f") };
        return { version, outputs, coverage: 1 };
      },
    });

    expect(asked).toEqual([
      { users: ["a"], exclude: [["x", "y"]] },
      { users: ["b", "c"], exclude: [["y", "z", "w"], []] },
    ]);
    expect(answer.degradations).toEqual([]);
    const explained = textsOf(answer.explanation!).map((text) => JSON.parse(text) as object);
    expect(explained).toMatchObject(
      [
        ["a", 2],
        ["b", 3],
        ["c", 0],
      ].map(([id, seen]) => ({
        stages: [{ stage: "retrieve" }, { stage: "seen", seen, candidates: 1, ids: [id] }],
      })),
    );
  });
});
