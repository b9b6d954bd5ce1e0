// The stages against an oracle that makes the separate calls and merges in plain JavaScript.

import type {
  Filter,
  JsonValue,
  Pipeline,
  PipelineStage,
  SignatureProgram,
  SignatureTensor,
  Tensor,
} from "@winnow/core";
import {
  filterText,
  fingerprint,
  parseFilter,
  parseScore,
  stringTensor,
  tensor,
  WinnowError,
} from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { RequestContext } from "../request-context.ts";
import type { PinnedModel, PredictRequest } from "../predictor.ts";
import { runPipeline } from "./pipeline-execution.ts";
import { runOnMembers } from "./member-run.ts";
import type { PipelineAnswer } from "./pipeline-execution.ts";
import { PIPELINE_BOUNDS } from "./fixtures/pipeline-bounds.ts";

interface Case {
  /** For each user the retrieved items, best first. */
  readonly retrieved: readonly (readonly { readonly item: number; readonly score: number }[])[];
  /** The rank score of an item for a user; few values, so that many are equal. */
  readonly rankOf: (user: number, item: number) => number;
  readonly limit: number;
  readonly instancesMax: number;
  /** Further letters of each user's name. */
  readonly userLetters?: number;
  /** Of each question to the models, in turn; the last one of all further ones. Default 1. */
  readonly coverages?: readonly number[];
  /** An expression over `prior`, the retrieval's score, `score`, the rank's, and `head`, its root. */
  readonly expression?: string;
}

const input = (name: string, dtype: SignatureTensor["dtype"]): SignatureTensor => {
  return { name, dtype, shape: [-1], value: 0, graphTensor: "" };
};

function pinnedModel(model: string, inputs: readonly SignatureTensor[]): PinnedModel {
  const signature: SignatureProgram = {
    name: "serving_default",
    methodName: "",
    constants: [],
    steps: [],
    outputs: [],
    inputs,
  };
  const none = { tables: [], vocabularies: [], denseModels: [] };
  const program = { fingerprint: fingerprint("f"), ...none, signatures: [signature] };
  return { model, version: 1, program, release: () => undefined };
}

const pinned = new Map([
  ["movies", pinnedModel("movies", [input("user_id", "string")])],
  ["ranking", pinnedModel("ranking", [input("user", "string"), input("movie", "string")])],
]);

const member = { signature: "serving_default", scores: "s" };

function pipelineOf(limit: number, expression?: string): Pipeline {
  const names = new Set(["score", "prior", "head"]);
  const found = parseScore(expression ?? "score", names);
  if ("fault" in found) throw new Error(found.fault);
  const heads = expression === undefined ? [] : [{ name: "head", output: "h" }];
  const user = { kind: "request", input: "user" } as const;
  const inputs = [
    { name: "user", from: user },
    { name: "movie", from: { kind: "item" } as const },
  ];
  const ids = { ids: "i", k: 9, inputs: [{ name: "user_id", from: "user" }] };
  return {
    stages: [
      { kind: "retrieve", model: "movies", ...member, ...ids, as: "prior" },
      { kind: "rank", model: "ranking", ...member, inputs, heads },
      ...(expression === undefined
        ? []
        : [{ kind: "score" as const, expression: found.expression }]),
      { kind: "limit", count: limit },
    ],
    outputs: { scores: "how_much", ids: "what" },
  };
}

function textsOf(request: PredictRequest, name: string): string[] {
  const values = request.inputs.get(name);
  if (values?.dtype !== "string") throw new Error(`no input ${name}`);
  return values.data.toText();
}

async function run(words: Case): Promise<{ answer: PipelineAnswer; asked: number[] }> {
  const { retrieved, rankOf, limit, instancesMax } = words;
  const asked: number[] = [];
  let questions = 0;
  let retrievedFor: string[] = [];
  const width = Math.max(0, ...retrieved.map((list) => list.length));
  const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });
  const letters = "x".repeat(words.userLetters ?? 0);
  const users = retrieved.map((_, user) => `u${user}${letters}`);
  const answer = await runPipeline({
    pipeline: pipelineOf(limit, words.expression),
    request: {
      signature: pinnedModel("p", [input("user", "string")]).program.signatures[0]!,
      inputs: new Map<string, Tensor>([["user", stringTensor(users)]]),
      context,
    },
    pinned,
    clock: new ManualClock(),
    ...PIPELINE_BOUNDS,
    instancesMax,
    ask: async (model, request) => {
      const outputs = new Map<string, Tensor>();
      if (model.model === "movies") {
        retrievedFor = textsOf(request, "user_id");
        const shape = [retrieved.length, width];
        const padded = retrieved.map((list) =>
          Array.from({ length: width }, (_, at) => list[at] ?? { item: 99, score: 99 }),
        );
        const rowLengths = Uint32Array.from(retrieved, (list) => list.length);
        const scores = Float32Array.from(padded.flat(), ({ score }) => score);
        const ids = padded.flat().map(({ item }) => `m${item}`);
        outputs.set("s", { ...tensor("float32", shape, scores), rowLengths });
        outputs.set("i", { ...stringTensor(ids, shape), rowLengths });
      } else {
        const items = textsOf(request, "movie");
        const owners = textsOf(request, "user");
        asked.push(items.length);
        const scores = items.map((item, at) =>
          rankOf(Number.parseInt(owners[at]!.slice(1), 10), Number(item.slice(1))),
        );
        outputs.set("s", tensor("float32", [items.length, 1], Float32Array.from(scores)));
        const roots = Float32Array.from(scores, (score) => Math.sqrt(score));
        outputs.set("h", tensor("float32", [items.length], roots));
      }
      const version = { model: model.model, version: 1, fingerprint: fingerprint("f") };
      const { coverages = [1] } = words;
      const coverage = coverages[Math.min(questions, coverages.length - 1)]!;
      questions += 1;
      return { version, outputs, coverage };
    },
  });
  context.finish();
  expect(retrievedFor).toEqual(users);
  return { answer, asked };
}

/** Insertion of one after the other, which is another way to order than the code's. */
function expected({ retrieved, rankOf, limit }: Case): { id: string; score: number }[][] {
  return retrieved.map((list, user) => {
    const best: { id: string; score: number }[] = [];
    for (const { item } of list) {
      const score = Math.fround(rankOf(user, item));
      const worse = best.findIndex((other) => other.score < score);
      best.splice(worse < 0 ? best.length : worse, 0, { id: `m${item}`, score });
    }
    return best.slice(0, limit);
  });
}

function lists({ outputs }: PipelineAnswer): { id: string; score: number }[][] {
  const scores = outputs.get("how_much");
  const ids = outputs.get("what");
  if (scores?.dtype !== "float32" || ids?.dtype !== "string") throw new Error("other dtypes");
  const [instances = 0, width = 0] = ids.shape;
  expect(scores.shape).toEqual(ids.shape);
  expect(scores.rowLengths).toEqual(ids.rowLengths);
  return Array.from({ length: instances }, (_, row) =>
    Array.from({ length: ids.rowLengths?.[row] ?? width }, (__, at) => ({
      id: ids.data.textAt(row * width + at),
      score: scores.data[row * width + at]!,
    })),
  );
}

describe("a pipeline", () => {
  test("answers what separate calls and a merge answer, ties and shortened lists included", async () => {
    const list = fc.array(fc.record({ item: fc.nat(20), score: fc.nat(3) }), { maxLength: 9 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(list, { minLength: 1, maxLength: 5 }),
        fc.array(fc.integer({ min: -2, max: 2 }), { minLength: 7, maxLength: 7 }),
        fc.record({
          limit: fc.integer({ min: 1, max: 12 }),
          instancesMax: fc.integer({ min: 1, max: 11 }),
        }),
        async (retrieved, values, bounds) => {
          const rankOf = (user: number, item: number): number =>
            values[(user * 3 + item) % values.length]! / 3;
          const words = { retrieved, rankOf, ...bounds };

          const { answer, asked } = await run(words);

          expect(lists(answer)).toEqual(expected(words));
          expect(Math.max(0, ...asked)).toBeLessThanOrEqual(bounds.instancesMax);
        },
      ),
      { numRuns: 300 },
    );
  });

  test("orders by an expression over the scores of its stages, which follow their candidates", async () => {
    const list = fc.uniqueArray(fc.record({ item: fc.nat(20), score: fc.nat(9) }), {
      maxLength: 9,
      selector: ({ item }) => item,
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(list, { minLength: 1, maxLength: 4 }),
        fc.integer({ min: 1, max: 11 }),
        async (retrieved, instancesMax) => {
          const rankOf = (user: number, item: number): number => ((user + 1) * item * 7) % 5;
          const expression = "2 * score - 3 * head + prior / 4";

          const { answer } = await run({ retrieved, rankOf, limit: 9, instancesMax, expression });

          const blended = retrieved.map((items, user) =>
            items
              .map(({ item, score }) => {
                const [rank, root] = [
                  rankOf(user, item),
                  Math.fround(Math.sqrt(rankOf(user, item))),
                ];
                return { item, rank, blend: Math.fround(2 * rank - 3 * root + score / 4) };
              })
              .toSorted((a, b) => b.rank - a.rank)
              .toSorted((a, b) => b.blend - a.blend)
              .map(({ item, blend }) => ({ id: `m${item}`, score: blend })),
          );
          expect(lists(answer)).toEqual(blended);
        },
      ),
    );
  });

  test("puts candidates whose score is NaN behind all others, in their order", async () => {
    const retrieved = [[0, 1, 2, 3].map((item) => ({ item, score: 0 }))];
    const rankOf = (_: number, item: number): number => (item % 2 === 0 ? NaN : item);

    const { answer } = await run({ retrieved, rankOf, limit: 4, instancesMax: 4 });

    expect(lists(answer)[0]!.map(({ id }) => id)).toEqual(["m3", "m1", "m0", "m2"]);
  });

  test("names the model that refuses to rank an item", async () => {
    const rankOf = (): number => {
      throw new WinnowError("INVALID_ARGUMENT", 'no key "m3"');
    };
    const words = { retrieved: [[{ item: 3, score: 1 }]], rankOf, limit: 1, instancesMax: 9 };
    await expect(run(words)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: 'Model ranking cannot rank what was retrieved: no key "m3"',
    });
  });

  test("has the coverage of its stages together, each that of its least covered question", async () => {
    const retrieved = [[0, 1, 2].map((item) => ({ item, score: 0 }))];
    const words = { retrieved, rankOf: (_: number, item: number) => item, limit: 3 };

    const whole = await run({ ...words, instancesMax: 1 });
    const partial = await run({ ...words, instancesMax: 1, coverages: [0.5, 1, 0.25, 0.75] });

    expect([whole.answer.coverage, partial.answer.coverage]).toEqual([1, 0.125]);
  });

  test("cuts questions by the bytes of the texts that go with each candidate, and refuses too many", async () => {
    const retrieved = [Array.from({ length: 9 }, (_, item) => ({ item, score: 0 }))];
    const words = { retrieved, rankOf: (_: number, item: number) => item, limit: 9 };

    const { asked } = await run({ ...words, instancesMax: 100, userLetters: 400_000 });
    const refused = run({ ...words, instancesMax: 100, userLetters: 1_000_000 });

    expect(asked).toEqual([2, 2, 2, 2, 1]);
    await expect(refused).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("9 candidates with 9000018 bytes") as string,
    });
  });
});

describe("the filters of a pipeline", () => {
  const filterOf = (written: unknown) => parseFilter(jsonOf(written));
  const stagesOf = (...written: readonly unknown[]): Pipeline => {
    const [retrieve] = pipelineOf(1).stages;
    const filters = written.map((each): PipelineStage => ({
      kind: "filter",
      filter: filterText(filterOf(each)),
    }));
    return { stages: [retrieve!, ...filters], outputs: { scores: "a", ids: "b" } };
  };

  /** What the retrieval is asked for. */
  async function askedFor(
    pipeline: Pipeline,
    filter?: readonly Filter[],
  ): Promise<readonly Filter[] | undefined> {
    let asked: readonly Filter[] | undefined;
    const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });
    const ids = stringTensor(["a"], [1, 1]);
    await runPipeline({
      pipeline,
      request: {
        signature: pinnedModel("p", [input("user", "string")]).program.signatures[0]!,
        inputs: new Map<string, Tensor>([["user", stringTensor(["u"])]]),
        context,
        filter,
      },
      pinned,
      clock: new ManualClock(),
      ...PIPELINE_BOUNDS,
      ask: async (model, request) => {
        asked = request.filter;
        const version = { model: model.model, version: 1, fingerprint: fingerprint("f") };
        const scores = tensor("float32", [1, 1], new Float32Array(1));
        return Promise.resolve({
          version,
          outputs: new Map<string, Tensor>([
            ["s", scores],
            ["i", ids],
          ]),
          coverage: 1,
        });
      },
    }).finally(() => context.finish());
    return asked;
  }

  test("go to the retrieval, each joined with the request's own of that instance", async () => {
    const [kids, year, genre] = [{ kids: false }, { year: { $gte: 1990 } }, { genre: "noir" }];

    expect(await askedFor(stagesOf(kids, year))).toEqual([
      { kind: "and", of: [filterOf(kids), filterOf(year), { kind: "and", of: [] }] },
    ]);
    expect(await askedFor(stagesOf(kids), [filterOf(genre), filterOf(year)])).toEqual([
      { kind: "and", of: [filterOf(kids), filterOf(genre)] },
      { kind: "and", of: [filterOf(kids), filterOf(year)] },
    ]);
    expect(await askedFor(stagesOf(), [filterOf(genre)])).toEqual([filterOf(genre)]);
  });

  test("are refused where they and the request's are too large together, before anybody is asked", async () => {
    const many = { genre: { $in: Array.from({ length: 3000 }, (_, at) => `g${at}`) } };

    await expect(askedFor(stagesOf(many), [filterOf(many)])).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message:
        "The filter of the request and those of the pipeline are too large together: " +
        "Cannot read a filter: it has too many values",
    });
  });
});

/** Plain JavaScript as parsed JSON. */
function jsonOf(value: unknown): JsonValue {
  if (Array.isArray(value)) return value.map((each) => jsonOf(each));
  if (typeof value !== "object" || value === null) return value as JsonValue;
  return new Map(Object.entries(value).map(([name, each]) => [name, jsonOf(each)]));
}

describe("the members of a pipeline", () => {
  const lost = new WinnowError("UNAVAILABLE", "No replica");

  /** Runs on members of these contents, one pin after the other; `"gone"` cannot be pinned. */
  async function outcomeOf(
    contents: readonly string[],
    outcomes: readonly (string | WinnowError)[],
  ) {
    let held = 0;
    const pins = [...contents];
    const runs: string[] = [];
    const outcome = await runOnMembers({
      pin: () => {
        const content = pins.shift();
        if (content === "gone") return Promise.reject(new WinnowError("UNAVAILABLE", "gone"));
        held += 1;
        return Promise.resolve(new Map([["movies", { content, release: () => void (held -= 1) }]]));
      },
      isSame: (before, now) => before.content === now.content,
      run: (members) => {
        runs.push(members.get("movies")!.content!);
        const end = outcomes[runs.length - 1]!;
        return end instanceof WinnowError ? Promise.reject(end) : Promise.resolve(end);
      },
    }).catch((error: unknown) => error);
    expect(held).toBe(0);
    return { outcome, runs };
  }

  test.each<{
    about: string;
    contents: readonly string[];
    outcomes: readonly (string | WinnowError)[];
    outcome: unknown;
    runs: readonly string[];
  }>([
    { about: "answer", contents: ["a"], outcomes: ["yes"], outcome: "yes", runs: ["a"] },
    {
      about: "are asked anew where one was lost and another took its place",
      contents: ["a", "b"],
      outcomes: [lost, "yes"],
      outcome: "yes",
      runs: ["a", "b"],
    },
    {
      about: "are not asked twice by a router that is busy",
      contents: ["a", "a"],
      outcomes: [lost],
      outcome: lost,
      runs: ["a"],
    },
    {
      about: "are asked twice at most",
      contents: ["a", "b"],
      outcomes: [lost, lost],
      outcome: lost,
      runs: ["a", "b"],
    },
    {
      about: "are given up where nothing took the place",
      contents: ["a", "gone"],
      outcomes: [lost],
      outcome: lost,
      runs: ["a"],
    },
  ])("$about", async ({ contents, outcomes, outcome, runs }) => {
    expect(await outcomeOf(contents, outcomes)).toEqual({ outcome, runs });
  });
});
