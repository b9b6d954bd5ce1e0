// Batches cut by arms and put together again, against an oracle that answers instance by instance.

import { fingerprint, stringTensor, tensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type { Prediction, PredictRequest } from "../predictor.ts";
import { RequestContext } from "../request-context.ts";
import type { Steps } from "../turns/turns.ts";
import { instancesByArm, joinedAnswer, requestFor } from "./arm-split.ts";
import type { PartAnswer } from "./arm-split.ts";

const version = { model: "feed", version: 4, fingerprint: fingerprint("f") };
const signature = {
  name: "serving_default",
  methodName: "",
  inputs: [],
  outputs: [],
  constants: [],
  steps: [],
};

function requestOf(inputs: Record<string, Tensor>): PredictRequest {
  const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });
  context.finish();
  return { signature, inputs: new Map(Object.entries(inputs)), context };
}

/** What steps lead to. */
function whole<Outcome>(steps: Steps<Outcome>): Outcome {
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

const cutFor = (...of: Parameters<typeof requestFor>): PredictRequest => whole(requestFor(...of));

/** For each user a list of items, whose length the user chooses: rows of different lengths are ragged. */
function answerOf(request: PredictRequest): Prediction {
  const users = request.inputs.get("user") as Tensor & { dtype: "int32" };
  const names = request.inputs.get("name") as Tensor & { dtype: "string" };
  const lengths = Uint32Array.from(users.data, (user) => user % 4);
  const width = Math.max(...lengths);
  const ids = Array.from(users.data).flatMap((_, row) =>
    Array.from({ length: width }, (__, at) =>
      at < lengths[row]! ? `${names.data.textAt(row)}/${at}` : "",
    ),
  );
  const scores = Array.from(users.data).flatMap((user) =>
    Array.from({ length: width }, (_, at) => (at < user % 4 ? user + at : 0)),
  );
  const rows = lengths.some((length) => length < width) ? { rowLengths: lengths } : {};
  const shape = [users.data.length, width];
  const outputs = new Map<string, Tensor>([
    ["ids", { ...stringTensor(ids, shape), ...rows }],
    ["scores", { ...tensor("float32", shape, Float32Array.from(scores)), ...rows }],
    ["count", tensor("int64", [users.data.length], BigInt64Array.from(lengths, BigInt))],
  ]);
  return { version, outputs, coverage: 1 };
}

test("a request of many texts is cut in turns, so that other requests run in between", () => {
  const [instances, width] = [3000, 200];
  const texts = Array.from({ length: instances * width }, (_, at) => `text ${at}`);
  const request = requestOf({ history: stringTensor(texts, [instances, width]) });
  const odd = Array.from({ length: instances / 2 }, (_, at) => 2 * at + 1);

  const turns = [...requestFor(request, odd, instances)];
  const { data } = cutFor(request, odd, instances).inputs.get("history") as Tensor & {
    dtype: "string";
  };

  expect(turns.length).toBeGreaterThan(1);
  expect(data.textAt(width)).toBe(`text ${3 * width}`);
  expect(data.textAt(data.length - 1)).toBe(texts.at(-1));
});

test("a large answer is put together in turns, so that other requests run in between", () => {
  const [instances, k] = [2000, 100];
  const half = (first: number): PartAnswer => {
    const count = (instances / 2) * k;
    const shape = [instances / 2, k];
    const ids = Array.from({ length: count }, (_, at) => `item ${at}`);
    const outputs = new Map<string, Tensor>([
      ["scores", tensor("float32", shape, new Float32Array(count))],
      ["ids", stringTensor(ids, shape)],
    ]);
    const positions = Array.from({ length: instances / 2 }, (_, at) => 2 * at + first);
    return { positions, prediction: { version, outputs, coverage: 1 } };
  };

  const turns = [...joinedAnswer(version, [half(0), half(1)])];

  expect(turns.length).toBeGreaterThan(1);
});

test("answers of arms, put together, are those of the whole batch", () => {
  const instances = fc.array(fc.record({ user: fc.nat(20), arm: fc.nat(3) }), {
    minLength: 1,
    maxLength: 12,
  });
  fc.assert(
    fc.property(instances, (all) => {
      const request = requestOf({
        user: tensor(
          "int32",
          [all.length, 1],
          Int32Array.from(all, ({ user }) => user),
        ),
        name: stringTensor(all.map(({ user }, at) => `${user}@${at}`)),
      });
      const byArm = instancesByArm(all.map(({ arm }) => arm));
      const parts = Array.from(byArm.values(), (positions) => ({
        positions,
        prediction: answerOf(cutFor(request, positions, all.length)),
      }));

      const joined = whole(joinedAnswer(version, parts));

      expect(joined.outputs).toEqual(answerOf(request).outputs);
    }),
  );
});

describe("what a request says of its items", () => {
  const users = tensor("int32", [3], Int32Array.of(1, 2, 3));
  const lists = ["a", "b", "c"].map((id) => stringTensor([id]));

  test("goes to each arm for its own instances", () => {
    const { exclude } = cutFor({ ...requestOf({ users }), exclude: lists }, [0, 2], 3);

    expect(exclude).toEqual([lists[0], lists[2]]);
  });

  test("for all instances goes to each arm", () => {
    const one = lists.slice(0, 1);
    const { include } = cutFor({ ...requestOf({ users }), include: one }, [1, 2], 3);

    expect(include).toEqual(one);
  });
});

describe("refuses to", () => {
  test("cut an input that is not one value per instance", () => {
    const request = requestOf({ all: tensor("int32", [2], Int32Array.of(1, 2)) });

    expect(() => cutFor(request, [0], 3)).toThrow(
      'input "all" is not one value per instance; send one instance per request',
    );
  });

  test("cut a sparse input", () => {
    const request = requestOf({ "genres/values": stringTensor(["a", "b"]) });

    expect(() => cutFor(request, [0], 2)).toThrow('input "genres/values" is not');
  });

  test.each([
    ["their types differ", stringTensor(["a"])],
    ["their shapes differ: [2], [2,1]", tensor("float32", [1, 2, 1], new Float32Array(2))],
    ["it is not one row for each instance", tensor("float32", [2, 2], new Float32Array(4))],
    ["one of them does not give it", undefined],
  ])("join answers of which %s", (why, other) => {
    const first = tensor("float32", [1, 2], new Float32Array(2));
    const width = other?.dtype === "string" ? { ...other, shape: [1, 1] } : other;
    const parts = [first, width].map((each, at) => ({
      positions: [at],
      prediction: { version, coverage: 1, outputs: new Map(each && [["x", each as Tensor]]) },
    }));

    expect(() => whole(joinedAnswer(version, parts))).toThrow(why);
  });
});

test("the answer of several arms names each version asked once, and has the least coverage", () => {
  const member = (model: string, number: number) => ({ ...version, model, version: number });
  const parts = [
    { members: [member("movies", 4), member("ranking", 7)], coverage: 1 },
    { members: [member("movies", 3), member("ranking", 7)], coverage: 0.5 },
  ].map((of, at) => ({
    positions: [at],
    prediction: { version, outputs: new Map<string, Tensor>(), ...of },
  }));

  const { members, coverage } = whole(joinedAnswer(version, parts));

  expect(members?.map((each) => `${each.model}=${each.version}`)).toEqual([
    "movies=3",
    "movies=4",
    "ranking=7",
  ]);
  expect(coverage).toBe(0.5);
});
