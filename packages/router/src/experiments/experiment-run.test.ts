// Requests of an experiment over models that tell who asked them: who answers whom, and what is told of it.

import type { Experiment, Tensor } from "@winnow/core";
import { StringColumn, WinnowError, fingerprint, stringTensor, tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type { PinnedModel, Prediction, PredictRequest } from "../predictor.ts";
import { RequestContext } from "../request-context.ts";
import type { ArmRecord } from "../router-observer.ts";
import { armOf } from "./arm-choice.ts";
import { armsText } from "./arms-text.ts";
import { runExperiment } from "./experiment-run.ts";
import type { ArmPin } from "./experiment-run.ts";

const version = { model: "feed", version: 4, fingerprint: fingerprint("e") };
const arms = [
  { name: "control", model: "movies", version: 3, weight: 50 },
  { name: "new", model: "movies", version: 4, weight: 50 },
];
const experiment: Experiment = { arms, sticky: { by: "input", name: "user_id" } };

const signature = {
  name: "serving_default",
  methodName: "",
  inputs: [{ name: "user_id", dtype: "string", shape: [-1], value: 0, graphTensor: "" } as const],
  outputs: [],
  constants: [],
  steps: [],
};

function pinnedModel(number: number): PinnedModel {
  const none = { tables: [], vocabularies: [], denseModels: [] };
  const program = { fingerprint: fingerprint(`${number}`), ...none, signatures: [signature] };
  return { model: "movies", version: number, program, release: () => undefined };
}

const whole = [3, 4].map((at) => ({ pinned: pinnedModel(at), isWhole: true }));
const absent = { error: new WinnowError("UNAVAILABLE", "no worker has it") };

interface Words {
  readonly experiment?: Partial<Experiment>;
  readonly arms?: readonly ArmPin<PinnedModel>[];
  readonly users?: Tensor;
  readonly request?: Partial<PredictRequest>;
  readonly failing?: number;
}

/** Asks; the models answer with their version and the user, one after the other. */
async function ask(words: Words = {}) {
  const clock = new ManualClock();
  const context = new RequestContext(clock, { timeoutMs: 1000 });
  const records: ArmRecord[] = [];
  let [asking, ended] = [0, 0];
  const users = words.users ?? stringTensor(["42", "7", "13", "99", "5", "6"]);
  const run = runExperiment<PinnedModel>({
    experiment: { ...experiment, ...words.experiment },
    version,
    request: { signature, inputs: new Map([["user_id", users]]), context, ...words.request },
    arms: words.arms ?? whole,
    ask: async ({ version: number, model, program }, { inputs }): Promise<Prediction> => {
      asking += 1;
      const input = inputs.get("user_id")!;
      const names = input.data instanceof StringColumn ? input.data.toText() : [...input.data];
      if (number === words.failing) throw new WinnowError("UNAVAILABLE", "it is gone");
      await Promise.resolve();
      ended += 1;
      const key = { model, version: number, fingerprint: program.fingerprint };
      const texts = names.map((user) => `${number}:${user}`);
      return { version: key, outputs: new Map([["by", stringTensor(texts)]]), coverage: 1 };
    },
    clock,
    limits: { instancesMax: 9 },
    onArm: (record) => void records.push(record),
  });
  const outcome = await run.then(
    (prediction) => ({ prediction, error: undefined }),
    (error: unknown) => ({ prediction: undefined, error: error as WinnowError }),
  );
  context.finish();
  const by = outcome.prediction?.outputs.get("by")?.data;
  const answers = by instanceof StringColumn ? by.toText() : [];
  return { ...outcome, answers, records, asking, ended };
}

const armFor = (key: string, salt = "feed"): number => armOf(arms, salt, Buffer.from(key));
const users = ["42", "7", "13", "99", "5", "6"];

test("each instance is answered by the arm of its own key, in the order of the batch", async () => {
  const { answers, prediction, records } = await ask();

  const expected = users.map((user) => armFor(user));
  expect(new Set(expected).size).toBe(2);
  expect(answers).toEqual(users.map((user, at) => `${expected[at]! + 3}:${user}`));
  expect(prediction?.version).toBe(version);
  expect(prediction?.arms).toBe(armsText(expected.map((arm) => arms[arm]!.name)));
  expect(prediction?.members?.map((member) => member.version)).toEqual([3, 4]);
  const told = records.map(({ arm, code, instances }) => ({ arm, code, instances }));
  const countOf = (arm: number): number => expected.filter((each) => each === arm).length;
  expect(told.toSorted((a, b) => (a.arm < b.arm ? -1 : 1))).toEqual([
    { arm: "control", code: "OK", instances: countOf(0) },
    { arm: "new", code: "OK", instances: countOf(1) },
  ]);
});

test("an instance gets the same arm alone and in any batch, as text and as integer", async () => {
  const batch = await ask();
  const integers = await ask({
    users: tensor("int64", [6, 1], BigInt64Array.from(users, BigInt)),
  });
  const alone = await Promise.all(users.map((user) => ask({ users: stringTensor([user]) })));

  expect(alone.map(({ answers }) => answers[0])).toEqual(batch.answers);
  expect(integers.answers).toEqual(batch.answers);
});

test("a header chooses one arm for the whole request, that of the same key as an input", async () => {
  const sticky = { by: "header", name: "X-User" } as const;
  const header = (name: string) => (name === "x-user" ? "13" : undefined);

  const { answers, prediction } = await ask({ experiment: { sticky }, request: { header } });

  expect(answers).toEqual(users.map((user) => `${armFor("13") + 3}:${user}`));
  expect(prediction?.arms).toBe(arms[armFor("13")]!.name);
});

test("a header in UTF-8, of which Node gives each byte as a character, is the key that its text is", async () => {
  const sticky = { by: "header", name: "X-User" } as const;
  const names = ["Zoë", "José", "Łukasz", "Ωmega", "用户", "😀", "naïve", "ß"];

  const chosen = await Promise.all(
    names.map(async (name) => {
      const header = () => Buffer.from(name).toString("latin1");
      const { prediction } = await ask({ experiment: { sticky }, request: { header } });
      return prediction?.arms;
    }),
  );

  expect(chosen).toEqual(names.map((name) => arms[armFor(name)]!.name));
});

test("a request without the header is refused, or goes to the arm that is for it", async () => {
  const sticky = { by: "header", name: "X-User" } as const;
  const refused = await ask({ experiment: { sticky } });
  const empty = await ask({ experiment: { sticky }, request: { header: () => "" } });
  const taken = await ask({ experiment: { sticky: { ...sticky, missing: "new" } } });

  expect(refused.error).toMatchObject({
    code: "INVALID_ARGUMENT",
    message: "The request lacks the header X-User, by which the experiment chooses an arm",
  });
  expect(empty.error?.code).toBe("INVALID_ARGUMENT");
  expect(taken.prediction?.arms).toBe("new");
});

test("the salt, by default the name of the model, decides who is in which arm", async () => {
  const { answers } = await ask({ experiment: { salt: "autumn" } });

  expect(answers).toEqual(users.map((user) => `${armFor(user, "autumn") + 3}:${user}`));
  expect(users.map((user) => armFor(user, "autumn"))).not.toEqual(users.map((u) => armFor(u)));
});

test("one arm needs no key", async () => {
  const { answers, prediction } = await ask({
    experiment: { arms: arms.slice(0, 1), sticky: undefined },
    arms: whole.slice(0, 1),
  });

  expect(answers).toEqual(users.map((user) => `3:${user}`));
  expect(prediction?.arms).toBe("control");
});

describe("an arm that cannot answer", () => {
  test("fails its own requests, and no others", async () => {
    const [mine, other] = [0, 1].map((arm) => users.find((user) => armFor(user) === arm)!);

    const failed = await ask({ arms: [whole[0]!, absent], users: stringTensor([other!]) });
    const answered = await ask({ arms: [whole[0]!, absent], users: stringTensor([mine!]) });

    expect(failed.error).toMatchObject({
      code: "UNAVAILABLE",
      message: "Arm new of experiment feed cannot answer: no worker has it",
    });
    expect(failed.records).toMatchObject([{ arm: "new", code: "UNAVAILABLE", instances: 1 }]);
    expect(answered.answers).toEqual([`3:${mine!}`]);
  });

  test("fails the whole batch that has an instance of it, before any model is asked", async () => {
    const { error, asking } = await ask({ arms: [whole[0]!, absent] });

    expect(error?.message).toContain("Arm new of experiment feed");
    expect(asking).toBe(0);
  });

  test("is answered for by the fallback, marked", async () => {
    const { answers, prediction } = await ask({
      experiment: { fallback: "control" },
      arms: [whole[0]!, absent],
    });

    expect(answers).toEqual(users.map((user) => `3:${user}`));
    expect(prediction?.arms).toBe("control");
    expect(prediction?.degradations).toEqual([{ stage: "arm", reason: "unavailable" }]);
  });

  test("has the fallback answer where partitions are lost, unless the request takes partial answers", async () => {
    const lost = [whole[0]!, { ...whole[1]!, isWhole: false }];
    const words = { experiment: { fallback: "control" }, arms: lost };

    const fallen = await ask(words);
    const partial = await ask({ ...words, request: { allowPartial: true } });
    const waiting = await ask({ arms: lost });

    expect(fallen.prediction?.arms).toBe("control");
    expect(partial.answers).toEqual((await ask()).answers);
    expect(waiting.answers).toEqual(partial.answers);
  });

  test("while it answers fails the batch, once all arms have ended: their models are pinned until then", async () => {
    const { error, records, asking, ended } = await ask({ failing: 4 });

    expect(error).toMatchObject({ code: "UNAVAILABLE", message: "it is gone" });
    expect([asking, ended]).toEqual([2, 1]);
    expect(records.map(({ arm, code }) => `${arm} ${code}`).toSorted()).toEqual([
      "control OK",
      "new UNAVAILABLE",
    ]);
  });
});

describe("a request is refused whose key", () => {
  test.each([
    ["is too long", { users: stringTensor(["x".repeat(513)]) }, /has 513 bytes; at most 512/],
    [
      "is not one value per instance",
      { users: stringTensor(["a", "b", "c", "d"], [2, 2]) },
      /is string \[2,2\]; it must be one string or integer per instance/,
    ],
    [
      "is no string or integer",
      { users: tensor("float32", [1], Float32Array.of(1)) },
      /is float32 \[1\]; it must be one string or integer/,
    ],
    [
      "is an input that the signature lacks",
      { experiment: { sticky: { by: "input", name: "user" } as const } },
      /Signature "serving_default" has no input "user", by which the experiment chooses/,
    ],
    ["belongs to too many instances", { users: stringTensor(users.concat(users)) }, /at most 9/],
  ] as readonly (readonly [string, Words, RegExp])[])("%s", async (_, words, message) => {
    const { error, asking } = await ask(words);

    expect(error?.code).toBe("INVALID_ARGUMENT");
    expect(error?.message).toMatch(message);
    expect(asking).toBe(0);
  });
});

describe("arms are told as", () => {
  test.each([
    [["a"], "a"],
    [["a", "a"], "a"],
    [["a", "a", "b", "a"], "a;n=2, b;n=1, a;n=1"],
    [Array.from({ length: 1000 }, (_, at) => (at % 2 === 0 ? "b" : "a")), "b, a"],
  ])("%j", (names, text) => {
    expect(armsText(names)).toBe(text);
  });
});
