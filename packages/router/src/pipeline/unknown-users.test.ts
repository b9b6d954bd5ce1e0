// Users that a model does not know, beside users that it knows: what each of them is answered, and what is told of it.

import { StringColumn, WinnowError, fingerprint, stringTensor, tensor } from "@winnow/core";
import type {
  ModelProgram,
  Pipeline,
  PipelineStage,
  SignatureProgram,
  SignatureTensor,
  Tensor,
  UnknownAnswer,
} from "@winnow/core";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type { PinnedModel, PredictRequest } from "../predictor.ts";
import { RequestContext } from "../request-context.ts";
import type { PipelineRun } from "./pipeline-run.ts";
import { runPipeline } from "./pipeline-execution.ts";
import { PIPELINE_BOUNDS } from "./fixtures/pipeline-bounds.ts";
import { search } from "./fixtures/search-step.ts";

const spec = (name: string, dtype: Tensor["dtype"], value = 0): SignatureTensor => {
  return { name, dtype, shape: [-1], value, graphTensor: "" };
};

const signature: SignatureProgram = {
  name: "serving_default",
  methodName: "",
  constants: [],
  steps: [search],
  inputs: [spec("user_id", "string")],
  outputs: [spec("s", "float32", 1), spec("i", "string", 2)],
};

const shape = { rows: 9, dim: 3, partitions: 1, sources: [] };
const program: ModelProgram = {
  fingerprint: fingerprint("f"),
  tables: [{ kind: "candidate", name: "items", ...shape, idDtype: "string" }],
  vocabularies: [],
  denseModels: [],
  signatures: [signature],
};
const pinnedOf = (model: string, more: Partial<ModelProgram> = {}): PinnedModel => {
  return { model, version: 3, program: { ...program, ...more }, release: () => undefined };
};

const retrieve = (model: string): PipelineStage => ({
  kind: "retrieve",
  model,
  signature: "serving_default",
  k: 4,
  inputs: [{ name: "user_id", from: "user" }],
  scores: "s",
  ids: "i",
});
const outputs = { scores: "scores", ids: "ids" };
const ofPipeline: SignatureProgram = {
  ...signature,
  steps: [],
  inputs: [spec("user", "string")],
  outputs: [spec("scores", "float32"), spec("ids", "string")],
};
const popular: Pipeline = { stages: [retrieve("trending"), { kind: "limit", count: 2 }], outputs };

const pinned = new Map([
  ["movies", pinnedOf("movies")],
  ["trending", pinnedOf("trending")],
  ["popular", pinnedOf("popular", { pipeline: popular, signatures: [ofPipeline] })],
  ["numbered", pinnedOf("numbered", { pipeline: popular, signatures: [signature] })],
]);

interface Words {
  readonly users: readonly string[];
  readonly answer: UnknownAnswer;
  readonly more?: Partial<PredictRequest>;
  readonly isTold?: boolean;
  readonly check?: PipelineRun["check"];
}

/** Users whose names begin with "u" are known; each model finds items that name it and the user. */
async function answerOf({ users, answer, more = {}, isTold = true, check }: Words) {
  const asked: { model: string; request: PredictRequest }[] = [];
  const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });
  const prediction = await runPipeline({
    pipeline: {
      stages: [
        retrieve("movies"),
        { kind: "unknown", input: "user", answer },
        { kind: "score", expression: [{ kind: "number", value: 7 }] },
        { kind: "limit", count: 3 },
      ],
      outputs,
    },
    request: {
      signature: ofPipeline,
      inputs: new Map<string, Tensor>([["user", stringTensor(users)]]),
      context,
      ...more,
    },
    pinned,
    clock: new ManualClock(),
    ...PIPELINE_BOUNDS,
    check,
    knows: (_, { values }) => {
      if (values.dtype !== "string") throw new Error("users are texts");
      const isKnown = values.data.toText().map((user) => !isTold || user.startsWith("u"));
      return Promise.resolve({ isKnown, isTold });
    },
    ask: (model, request) => {
      asked.push({ model: model.model, request });
      const lists = idsFor(model.model, request);
      const width = Math.max(...lists.map((ids) => ids.length));
      const matrix = [lists.length, width];
      const rowLengths = Uint32Array.from(lists, (ids) => ids.length);
      const padded = lists.flatMap((ids) =>
        Array.from({ length: width }, (_, at) => ids[at] ?? ""),
      );
      const scores = Float32Array.from(padded, (_, at) => 9 - (at % width));
      return Promise.resolve({
        version: { model: model.model, version: 3, fingerprint: fingerprint("f") },
        outputs: new Map<string, Tensor>([
          ["s", { ...tensor("float32", matrix, scores), rowLengths }],
          ["i", { ...stringTensor(padded, matrix), rowLengths }],
        ]),
        coverage: 1,
      });
    },
  }).finally(() => context.finish());
  return { ...prediction, asked, lists: listsOf(prediction.outputs) };
}

/** Items of each instance; of a search of listed items, those of the list, in another order than the list's. */
function idsFor(model: string, { inputs, include = [], k }: PredictRequest): string[][] {
  const users = inputs.get("user_id");
  if (users?.dtype === "string") {
    return users.data.toText().map((user) => [1, 2, 3, 4].map((at) => `${model} ${user} ${at}`));
  }
  const vectors = inputs.get("vectors")!;
  expect(vectors.data).toEqual(new Float32Array(vectors.shape[0]! * 3));
  return Array.from({ length: vectors.shape[0]! }, (_, instance) => {
    const { data } = include[include.length > 1 ? instance : 0]!;
    if (!(data instanceof StringColumn)) throw new Error("no texts");
    const rows = data
      .toText()
      .filter((id) => id !== "gone")
      .toReversed();
    return rows.flatMap((id) => (id.startsWith("often ") ? Array(9).fill(id) : [id])).slice(0, k);
  });
}

function listsOf(given: ReadonlyMap<string, Tensor>): { id: string; score: number }[][] {
  const [scores, ids] = [given.get("scores"), given.get("ids")];
  if (scores?.dtype !== "float32" || ids?.dtype !== "string") throw new Error("other dtypes");
  const [instances = 0, width = 0] = ids.shape;
  return Array.from({ length: instances }, (_, row) =>
    Array.from({ length: ids.rowLengths?.[row] ?? width }, (__, at) => ({
      id: ids.data.textAt(row * width + at),
      score: scores.data[row * width + at]!,
    })),
  );
}

const stagesFor = (user: string) =>
  [1, 2, 3].map((at) => ({ id: `movies ${user} ${at}`, score: 7 }));

const users = ["x1", "u1", "x2", "u2"];
const list: UnknownAnswer = { kind: "list", ids: ["c", "gone", "a", "b", "d"] };

describe("users that a model does not know", () => {
  test("get the items of a list in its order, as many as stages keep, where nothing ranks them", async () => {
    const { lists, unknownUsers, degradations, asked } = await answerOf({ users, answer: list });

    const listed = ["c", "a", "b"].map((id) => ({ id, score: 0 }));
    expect(lists).toEqual([listed, stagesFor("u1"), listed, stagesFor("u2")]);
    expect(unknownUsers).toEqual([{ answer: "list", instances: 2 }]);
    expect(degradations).toEqual([]);
    expect(asked.map(({ request }) => request.k)).toEqual([4, 5]);
  });

  test("get all items of a list, each once, where ids stand in several rows of the table", async () => {
    const answer: UnknownAnswer = { kind: "list", ids: ["d", "often c", "a", "often b"] };
    const asked = await answerOf({ users: ["x1", "x2", "x3"], answer });
    const described = await answerOf({ users: ["x1"], answer, more: { attributes: ["year"] } });

    const listed = ["d", "often c", "a"].map((id) => ({ id, score: 0 }));
    expect(asked.lists).toEqual([listed, listed, listed]);
    expect(asked.asked.map(({ request }) => request.k)).toEqual([4, 8, 16, 32]);
    expect(described.lists).toEqual([listed]);
  });

  test("get of a list what the request includes, by the conditions of their own instance", async () => {
    const include = users.map((user) => stringTensor(user === "x1" ? ["a", "c", "q"] : ["b"]));
    const exclude = users.map((user) => stringTensor([`not for ${user}`]));

    const { asked, lists } = await answerOf({ users, answer: list, more: { include, exclude } });
    const { lists: ofAll } = await answerOf({
      users,
      answer: list,
      more: { include: [include[0]!] },
    });

    const idsOf = (feed: (typeof lists)[number]) => feed.map(({ id }) => id);
    expect([idsOf(lists[0]!), idsOf(lists[2]!)]).toEqual([["c", "a"], ["b"]]);
    expect([idsOf(ofAll[0]!), idsOf(ofAll[2]!)]).toEqual([
      ["c", "a"],
      ["c", "a"],
    ]);
    const excluded = asked.map(({ request }) =>
      request.exclude!.map(({ data }) => (data as StringColumn).textAt(0)),
    );
    expect(excluded).toEqual([
      ["not for u1", "not for u2"],
      ["not for x1", "not for x2"],
    ]);
  });

  test("get what another pipeline answers them", async () => {
    const { lists, unknownUsers } = await answerOf({
      users,
      answer: { kind: "pipeline", model: "popular" },
    });

    const other = (user: string) =>
      [9, 8].map((score, at) => ({ id: `trending ${user} ${at + 1}`, score }));
    expect(lists).toEqual([other("x1"), stagesFor("u1"), other("x2"), stagesFor("u2")]);
    expect(unknownUsers).toEqual([{ answer: "pipeline", instances: 2 }]);
  });

  test("get what the stages make of them, and are told, or an error that names the first", async () => {
    const answered = await answerOf({ users, answer: { kind: "oov" } });
    const refused = answerOf({ users: ["u1", "x9"], answer: { kind: "error" } });

    expect(answered.lists).toEqual(users.map(stagesFor));
    expect(answered.unknownUsers).toEqual([{ answer: "oov", instances: 2 }]);
    await expect(refused).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message:
        'No vocabulary of model movies has "x9", input "user" of instance 1; the pipeline answers known users alone',
    });
  });

  test.each<UnknownAnswer>([list, { kind: "oov" }, { kind: "error" }])(
    "are nobody where all are known: $kind",
    async (answer) => {
      const { lists, unknownUsers, asked } = await answerOf({ users: ["u1", "u2"], answer });

      expect(lists).toEqual(["u1", "u2"].map(stagesFor));
      expect([unknownUsers, asked.length]).toEqual([undefined, 1]);
    },
  );

  test("are answered as known where nobody tells who they are, which the answer says", async () => {
    const answer = { kind: "error" } as const;
    const { lists, degradations, explanation } = await answerOf({
      users,
      answer,
      isTold: false,
      more: { explain: true },
    });

    expect(lists).toEqual(users.map(stagesFor));
    expect(degradations).toEqual([{ stage: "unknown", reason: "unavailable" }]);
    const [first] = stagesOf(explanation);
    expect(first![0]).toMatchObject({ unknown: false, degraded: "unknown=unavailable" });
  });

  test("are explained: who they are, and the stages of their own answer", async () => {
    const more = { explain: true };
    const listed = await answerOf({ users: ["u1", "x1"], answer: list, more });
    const other = await answerOf({
      users: ["u1", "x1"],
      answer: { kind: "pipeline", model: "popular" },
      more,
    });

    const none = { stage: "unknown", ms: 0, candidates: 0, ids: [], scores: [] };
    const [known, unknown] = stagesOf(listed.explanation);
    expect(known![0]).toEqual({ ...none, unknown: false });
    expect(unknown![0]).toEqual({ ...none, unknown: true, answer: "list" });
    const kinds = (stages: readonly { readonly stage: string }[] | undefined) =>
      stages!.map(({ stage }) => stage);
    expect(kinds(known)).toEqual(["unknown", "retrieve", "score", "limit"]);
    expect(kinds(unknown)).toEqual(["unknown", "retrieve", "limit"]);
    const [, fallen] = stagesOf(other.explanation);
    expect(fallen![0]).toMatchObject({ answer: "pipeline", model: "popular", version: 3 });
    expect(fallen![1]).toMatchObject({ stage: "retrieve", model: "trending", version: 3 });
  });

  test("are refused what the limits of a request refuse, for the pipeline that answers them", async () => {
    const checked: [string, number][] = [];
    const check: PipelineRun["check"] = ({ stages }, { inputs }) => {
      const [first] = stages;
      const [model, k] = first?.kind === "retrieve" ? [first.model, first.k] : ["", 0];
      checked.push([model, k * inputs.get("user")!.data.length]);
      if (model === "trending") throw new WinnowError("INVALID_ARGUMENT", "too many");
    };

    await answerOf({ users, answer: list, check });
    const refused = answerOf({ users, answer: { kind: "pipeline", model: "popular" }, check });

    await expect(refused).rejects.toThrow("too many");
    expect(checked).toEqual([
      ["movies", 10],
      ["trending", 8],
    ]);
  });

  test("cannot be answered by what takes other inputs, or is no pipeline", async () => {
    const answerBy = (model: string) => answerOf({ users, answer: { kind: "pipeline", model } });

    await expect(answerBy("trending")).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringContaining("it is no pipeline") as string,
    });
    await expect(answerBy("numbered")).rejects.toThrow('it takes an input "user_id" of string');
  });
});

function stagesOf(explanation: Tensor | undefined) {
  if (explanation?.dtype !== "string") throw new Error("no explanation");
  return explanation.data.toText().map((text) => {
    return (JSON.parse(text) as { stages: readonly { readonly stage: string }[] }).stages;
  });
}
