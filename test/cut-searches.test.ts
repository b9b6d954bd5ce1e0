// Searches that are more than a product and a top-k (masks, functions of scores, several query vectors), asked of
// one worker and of three over real gRPC streams: what a cluster answers is TensorFlow's answer, and the same bits
// however the items are cut and spread.

import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createDenseEngine } from "@winnow/accelerator";
import { GrpcConnector, StaticMembership } from "@winnow/cluster";
import { WinnowError, compareCandidates, stringTensor, systemClock, workerId } from "@winnow/core";
import type { SignatureProgram, Tensor } from "@winnow/core";
import { RequestContext, createRouter } from "@winnow/router";
import type { PredictRequest, Router } from "@winnow/router";
import { startWorker } from "@winnow/worker";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { differenceOf } from "./models/answer-difference.ts";
import { inputTensors, recordedModels } from "./models/recorded-answers.ts";
import type { RecordedCase } from "./models/recorded-answers.ts";
import {
  IDS,
  K,
  SHAPES,
  faultOf as faultOfScores,
  inputsOf,
  writeScores,
} from "./models/written-scores.ts";
import type { Shape } from "./models/written-scores.ts";
import { seededEnvironment as environment } from "./doubles/seeded-environment.ts";
import { supplyPorts } from "./port-supply.ts";

const NAMES = new Set([
  "distances",
  "computed_items",
  "hidden_items",
  "masked_searches",
  "score_expressions",
  "several_interests",
  "sliced_candidates",
  "tied_scores",
]);
/** Scores for which workers sum functions of scores over some of their rows. */
const SUMMED = SHAPES.filter(({ name }) =>
  [
    "opposite of a softmax",
    "softmax of capped logits",
    "softmax of masked scores that still count",
    "logarithm of a softmax of masked scores over a temperature of each query",
    "softmax of scores with a penalty beside which they are rounded",
    "a softmax of scores over which a scatter writes, without the padding row",
  ].includes(name),
);
/** Scores that dense parts compute of all items, which routers rank where a request has a k or lists of ids. */
const UNCUT: readonly Shape[] = [
  ...SHAPES.filter(({ isDense, rank }) => isDense === true && rank === undefined),
  {
    name: "logarithms, some of numbers below 0",
    build: ({ graph, scores, bias }) => {
      const weighed = graph.op("Mul", [graph.op("Sigmoid", [scores]), bias]);
      return graph.op("Log", [weighed]);
    },
    scored: (scores) => scores,
  },
];
const models = recordedModels("test/data/savedmodels").filter(({ name }) => NAMES.has(name));
const closings: (() => Promise<void> | void)[] = [];
const routers = new Map<number, Router>();
let base = "";

async function until(isTrue: () => boolean): Promise<void> {
  const endMs = systemClock.nowMs() + 60_000;
  while (!isTrue()) {
    if (systemClock.nowMs() > endMs) throw new Error("waited in vain");
    await new Promise((resolve) => {
      setTimeout(resolve, 20);
    });
  }
}

/** A router before so many workers, each partition as small as it may be or all items in one. */
async function startCluster(workers: number, partitionBytes: number): Promise<Router> {
  const members = await Promise.all(
    Array.from({ length: workers }, async (_, at) => {
      return { workerId: workerId(`w${at}`), address: `127.0.0.1:${(await supplyPorts(1))[0]}` };
    }),
  );
  const join = (): { connector: GrpcConnector; membership: StaticMembership } => {
    const connector = new GrpcConnector(systemClock);
    const describe = connector.describe.bind(connector);
    const membership = new StaticMembership({ environment, describe }, { members });
    closings.push(async () => {
      await membership.close();
      connector.close();
    });
    return { connector, membership };
  };
  const started = await Promise.all(
    members.map(async (member) => {
      const port = Number(member.address.split(":")[1]);
      const worker = await startWorker(
        {
          workerId: member.workerId,
          port,
          modelsPath: base,
          pollIntervalMs: 50,
          partitionBytes,
          accelerator: "reference",
        },
        { environment, membership: join().membership },
      );
      closings.push(() => worker.close());
      return worker;
    }),
  );
  const { connector, membership } = join();
  const denseEngine = createDenseEngine({});
  const router = createRouter({}, { environment, connector, membership, denseEngine });
  closings.push(async () => {
    router.close();
    await denseEngine.close();
  });
  const isWhole = (): boolean =>
    router.ready &&
    started.every((worker) => worker.isReady) &&
    router.workers().filter(({ askable }) => askable).length === workers;
  await until(isWhole);
  return router;
}

const writtenName = (at: number): string => `written_${at}`;
const uncutName = (at: number): string => `uncut_${at}`;

beforeAll(async () => {
  base = await mkdtemp(path.join(tmpdir(), "winnow-cut-"));
  for (const { name, directory } of models) {
    await cp(directory, path.join(base, name, "1"), { recursive: true });
  }
  for (const [at, shape] of SUMMED.entries()) {
    writeScores(shape, path.join(base, writtenName(at), "1"));
  }
  for (const [at, shape] of UNCUT.entries()) {
    writeScores(shape, path.join(base, uncutName(at), "1"));
  }
  routers.set(1, await startCluster(1, 2 ** 20));
  routers.set(3, await startCluster(3, 400));
}, 120_000);

afterAll(async () => {
  for (const close of closings.toReversed()) await close();
  await rm(base, { recursive: true });
});

type Answer =
  | { readonly signature: SignatureProgram; readonly outputs: ReadonlyMap<string, Tensor> }
  | { readonly code: string };

async function ask(
  router: Router,
  model: string,
  { wishes, ...recorded }: RecordedCase & { readonly wishes?: Partial<PredictRequest> },
): Promise<Answer> {
  const of = (signature: SignatureProgram): ReadonlyMap<string, Tensor> =>
    inputTensors(signature, recorded.inputs);
  return await answered(router, { model, name: recorded.signature_name, wishes }, of);
}

/** A signature of a model, and what is wished of it. */
interface Asked {
  readonly model: string;
  readonly name?: string | undefined;
  readonly wishes?: Partial<PredictRequest> | undefined;
}

async function answered(
  router: Router,
  { model, name = "serving_default", wishes }: Asked,
  inputsFor: (signature: SignatureProgram) => ReadonlyMap<string, Tensor>,
): Promise<Answer> {
  const pinned = await router.pin({ model, version: undefined });
  const context = new RequestContext(systemClock, { timeoutMs: 30_000 });
  try {
    const signature = pinned.program.signatures.find((each) => each.name === name)!;
    const inputs = inputsFor(signature);
    const { outputs } = await router.predict(pinned, { signature, inputs, context, ...wishes });
    return { signature, outputs };
  } catch (error) {
    if (error instanceof WinnowError) return { code: error.code };
    throw error;
  } finally {
    context.finish();
    pinned.release();
  }
}

/** What is wrong with an answer, or `undefined`. */
function faultOf(answer: Answer, of: Parameters<typeof differenceOf>[2]): string | undefined {
  const wanted = of.recorded.error?.code;
  if ("code" in answer) return answer.code === wanted ? undefined : `refused: ${answer.code}`;
  if (wanted !== undefined) return `answered instead of ${wanted}`;
  return differenceOf(answer.signature, answer.outputs, of);
}

/** Values of an answer that are equal only where their bits are. */
function bitsOf(answer: Answer): unknown {
  if ("code" in answer) return answer.code;
  return Array.from(answer.outputs, ([name, { dtype, shape, data }]) => [
    name,
    shape,
    dtype === "string"
      ? data.toText()
      : [...new Uint8Array(data.buffer, data.byteOffset, data.byteLength)],
  ]);
}

test.each(models)("$name: TensorFlow's answers, and one's bits are three's", async (model) => {
  const faults: string[] = [];
  for (const [index, recorded] of model.cases.entries()) {
    const one = await ask(routers.get(1)!, model.name, recorded);
    const three = await ask(routers.get(3)!, model.name, recorded);
    const fault = faultOf(three, { model, recorded });
    if (fault !== undefined) faults.push(`case ${index} of ${recorded.signature_name}: ${fault}`);
    expect(bitsOf(three)).toEqual(bitsOf(one));
  }
  expect(faults).toEqual([]);
});

test.each(SUMMED.map((shape, at) => ({ name: shape.name, shape, at })))(
  "$name: what plain arithmetic gives, and one's bits are three's",
  async ({ at, shape }) => {
    const of = { model: writtenName(at) };
    const one = await answered(routers.get(1)!, of, () => inputsOf(shape));
    const three = await answered(routers.get(3)!, of, () => inputsOf(shape));

    expect("code" in three ? three.code : faultOfScores(shape, three.outputs)).toBeUndefined();
    expect(bitsOf(three)).toEqual(bitsOf(one));
  },
);

test("the items of three workers are cut", async () => {
  const pinned = await routers.get(3)!.pin({ model: "several_interests", version: undefined });
  const { tables } = pinned.program;
  pinned.release();

  expect(tables.length).toBeGreaterThan(0);
  expect(tables.every(({ partitions }) => partitions > 2)).toBe(true);
});

/** The ids of each query, best first. */
function idsOf(answer: Answer): readonly (readonly string[])[] {
  const ids = "code" in answer ? undefined : answer.outputs.get("ids");
  if (ids?.dtype !== "string") throw new Error("no ids were answered");
  const [queries = 0, width = 0] = ids.shape;
  const texts = ids.data.toText();
  return Array.from({ length: queries }, (_, at) => texts.slice(at * width, (at + 1) * width));
}

test.each(["serving_default", "sigmoid", "masked_sigmoid", "penalised"])(
  "several vectors, %s: what each query excludes is not found by any of its vectors",
  async (name) => {
    const { cases } = models.find((model) => model.name === "several_interests")!;
    const recorded = cases.find((each) => each.signature_name === name)!;
    const router = routers.get(3)!;
    const all = idsOf(await ask(router, "several_interests", { ...recorded, wishes: { k: 40 } }));
    const best = all.map((list) => list.slice(0, 3));

    const exclude = best.map((ids) => stringTensor(ids));
    const rest = idsOf(
      await ask(router, "several_interests", { ...recorded, wishes: { k: 9, exclude } }),
    );

    expect(rest).toEqual(all.map((list) => list.slice(3, 12)));
  },
);

describe.each(UNCUT.map((shape, at) => ({ name: shape.name, shape, at })))(
  "items that are not cut, $name",
  ({ shape, at }) => {
    const asked = async (wishes: Partial<PredictRequest>): Promise<Answer> =>
      await answered(routers.get(3)!, { model: uncutName(at), wishes }, () => inputsOf(shape));
    const listsOf = (answer: Answer): readonly (readonly Found[])[] => {
      if ("code" in answer) throw new Error(answer.code);
      const [scores, ids] = [answer.outputs.get("scores")!, answer.outputs.get("ids")!];
      if (scores.dtype !== "float32" || ids.dtype !== "string") throw new Error("other outputs");
      expect(ids.rowLengths).toEqual(scores.rowLengths);
      const [queries = 0, width = 0] = ids.shape;
      const texts = ids.data.toText();
      return Array.from({ length: queries }, (_, query) => {
        const length = ids.rowLengths?.[query] ?? width;
        return Array.from({ length }, (_item, place) => {
          const where = query * width + place;
          return { id: texts[where]!, score: scores.data[where]! };
        });
      });
    };
    let whole: readonly (readonly Found[])[] = [];
    beforeAll(async () => {
      whole = listsOf(await asked({ k: 4096 }));
    });

    test("a k brings as many items as there are, by score, equal ones by row, NaN behind all", async () => {
      for (const list of whole) {
        const ordered = list.toSorted((a, b) =>
          compareCandidates(
            { score: a.score, row: IDS.indexOf(a.id) },
            { score: b.score, row: IDS.indexOf(b.id) },
          ),
        );
        expect(list).toEqual(ordered);
        expect(list.map(({ id }) => id).toSorted()).toEqual(IDS.slice(0, list.length).toSorted());
        expect(list.length).toBeGreaterThan(35);
      }
      for (const k of [1, 2, K, 35]) {
        expect(listsOf(await asked({ k }))).toEqual(whole.map((list) => list.slice(0, k)));
      }
    });

    test("the model's own k brings the first of the same items", async () => {
      const own = listsOf(await asked({}));

      const isOrdered = whole.flat().every(({ score }) => !Number.isNaN(score));
      // ONNX Runtime has no order for NaN.
      const first = isOrdered ? whole.map((list) => list.slice(0, K)) : own;
      expect(own).toEqual(first);
      expect(own.map((list) => list.length)).toEqual([K, K, K]);
    });

    test("excluded and included ids hold, for all queries and for each, unknown ones are nothing", async () => {
      const every = (step: number): string[] => IDS.filter((_, row) => row % step === 0);
      const own = whole.map((list, query) => list.slice(0, query + 1).map(({ id }) => id));
      const none = ["nobody knows"];
      for (const k of [3, 40]) {
        for (const [exclude, include] of [
          [[every(2)], []],
          [[], [every(3)]],
          [[every(2), none, own[2]!], [every(3)]],
          [own, [IDS, every(5), none]],
          [[none], [[], own[0]!, every(9)]],
        ] as const) {
          const answer = await asked({
            k,
            exclude: exclude.map((ids) => stringTensor(ids)),
            include: include.map((ids) => stringTensor(ids)),
          });
          const expected = whole.map((list, query) => {
            const without = exclude[exclude.length > 1 ? query : 0] ?? [];
            const only = include[include.length > 1 ? query : 0] ?? IDS;
            const left = list.filter(({ id }) => only.includes(id) && !without.includes(id));
            return left.slice(0, k);
          });
          expect(listsOf(answer)).toEqual(expected);
        }
      }
    });

    test("a filter, attributes and lists of other queries are refused", async () => {
      const lists = [stringTensor([]), stringTensor([])];
      const test = { kind: "test", attribute: "year", is: "in", values: [1990] } as const;

      expect(await asked({ filter: [test] })).toEqual({ code: "INVALID_ARGUMENT" });
      expect(await asked({ attributes: ["year"] })).toEqual({ code: "INVALID_ARGUMENT" });
      expect(await asked({ exclude: lists })).toEqual({ code: "INVALID_ARGUMENT" });
    });
  },
);

interface Found {
  readonly id: string;
  readonly score: number;
}
