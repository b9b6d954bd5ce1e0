// The interpreter: order, overlap, failure, memory.

import { describe, expect, test } from "vitest";

import { WinnowError } from "../errors/errors.ts";
import { stringTensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Signal } from "../time/signal.ts";
import type {
  CandidateTable,
  HostStep,
  KeyedTable,
  LookupStep,
  SignatureProgram,
  Step,
  TopKStep,
} from "./program.ts";
import { runProgram } from "./program-run.ts";
import type { ProgramExecutors } from "./program-run.ts";
import { tensorOf } from "./operations/tensor-memory.ts";
import type { TopKQuestion } from "./step-contract.ts";

const shape = { rows: 5, dim: 2, partitions: 1, sources: [] };
const users: KeyedTable = { kind: "keyed", name: "users", ...shape, keys: { kind: "row" } };
const movies: CandidateTable = { kind: "candidate", name: "movies", ...shape, idDtype: "string" };

const floats = (shape: readonly number[], value = 1): Tensor => {
  const count = shape.reduce((product, size) => product * size, 1);
  return tensorOf("float32", shape, new Float32Array(count).fill(value));
};

const host = (op: string, inputs: readonly number[], outputs: readonly number[]): Step => {
  return { kind: "host", op, node: `node_${op}`, attributes: {}, inputs, outputs };
};
const lookup = (keys: number, output: number): LookupStep => {
  return { kind: "lookup", table: 0, node: `gather_${output}`, keys, output };
};
const topK = (query: number, values: Partial<TopKStep>): TopKStep => ({
  kind: "topK",
  table: 1,
  node: "top_k",
  query,
  k: 3,
  capped: false,
  scores: undefined,
  rows: undefined,
  ids: undefined,
  ...values,
});

function signatureOf(
  steps: readonly Step[],
  outputs: Readonly<Record<string, number>>,
): SignatureProgram {
  const tensors = Object.entries(outputs);
  return {
    name: "serving_default",
    methodName: "tensorflow/serving/predict",
    inputs: [
      { name: "user", graphTensor: "user:0", value: 0, dtype: "string", shape: [-1] },
      { name: "movie", graphTensor: "movie:0", value: 1, dtype: "string", shape: [-1] },
    ],
    outputs: tensors.map(([name, value]) => {
      return { name, graphTensor: `${name}:0`, value, dtype: "float32", shape: undefined };
    }),
    constants: [],
    steps,
  };
}

const yes = tensorOf("bool", [], Uint8Array.of(1));
const no = tensorOf("bool", [], Uint8Array.of(0));

/** Value 9 decides: users are looked up where it is true, movies where it is false. */
function branching(decision: Tensor): SignatureProgram {
  const steps: readonly Step[] = [
    { ...lookup(0, 2), when: { predicate: 9, isTrue: true } },
    { ...host("Neg", [2], [3]), when: { predicate: 9, isTrue: true } },
    { ...lookup(1, 4), when: { predicate: 9, isTrue: false } },
    { kind: "choice", node: "cond", predicate: 9, branches: [3, 4], output: 5 },
  ];
  return { ...signatureOf(steps, { rows: 5 }), constants: [{ value: 9, tensor: decision }] };
}

const inputs = new Map([
  ["user", stringTensor(["Ann", "Bob"])],
  ["movie", stringTensor(["Heat", "Alien"])],
]);

function executorsOf(changes: Partial<ProgramExecutors> = {}): ProgramExecutors {
  return {
    tables: [users, movies],
    vocabularies: [],
    lookup: (_, keys) => Promise.resolve(floats([...keys.shape, 2])),
    dense: (step, given) => {
      const [first] = given.values();
      return Promise.resolve(new Map(step.outputs.map(({ name }) => [name, first!])));
    },
    sums: () => Promise.reject(new RangeError("no step asks for sums")),
    topK: (_, { query, k }) => {
      const found = [query.shape[0]!, k];
      const count = found[0]! * k;
      return Promise.resolve({
        scores: floats(found),
        rows: tensorOf("int32", found, new Int32Array(count)),
        ids: stringTensor(
          Array.from({ length: count }, () => "id"),
          found,
        ),
      });
    },
    ...changes,
  };
}

const codeOf = (run: Promise<unknown>): Promise<string> =>
  run.then(
    () => "done",
    (error: unknown) => (error instanceof WinnowError ? error.code : String(error)),
  );

describe("runProgram()", () => {
  test("gives outputs by name in the signature's order", async () => {
    const signature = signatureOf(
      [host("StringLower", [0], [2]), lookup(2, 3), topK(3, { scores: 4, ids: 5 })],
      { titles: 5, scores: 4, names: 2, again: 0 },
    );

    const outputs = await runProgram(signature, { inputs }, executorsOf());

    expect([...outputs.keys()]).toEqual(["titles", "scores", "names", "again"]);
    expect(outputs.get("names")).toEqual(stringTensor(["ann", "bob"]));
    expect(outputs.get("titles")?.shape).toEqual([2, 3]);
  });

  test("asks both lookups of a ranking model before either answers", async () => {
    const answers: (() => void)[] = [];
    const signature = signatureOf([lookup(0, 2), lookup(1, 3), host("AddV2", [2, 3], [4])], {
      score: 4,
    });
    const run = runProgram(
      signature,
      { inputs },
      executorsOf({
        lookup: (_, keys) =>
          new Promise((resolve) => answers.push(() => resolve(floats([...keys.shape, 2])))),
      }),
    );

    expect(answers.length).toBe(2);
    for (const answer of answers) answer();
    expect((await run).get("score")).toEqual(floats([2, 2], 2));
  });

  test("runs steps whose outputs nobody reads, so that assertions hold", async () => {
    const signature = {
      ...signatureOf([host("Assert", [2, 0], [])], { user: 0 }),
      constants: [{ value: 2, tensor: tensorOf("bool", [], Uint8Array.of(0)) }],
    };

    const run = runProgram(signature, { inputs }, executorsOf());

    await expect(run).rejects.toThrow(
      'assertion failed: ["Ann" "Bob"]\n\t [[{{node node_Assert}}]]',
    );
  });

  test.each([
    ["of a request", { signal: new AbortController().signal }],
    ["of nobody's", {}],
  ])("fails once with the first failure, and aborts the other steps %s", async (_, own) => {
    const aborted: string[] = [];
    const signature = signatureOf([lookup(0, 2), lookup(1, 3), host("AddV2", [2, 3], [4])], {
      score: 4,
    });
    const run = runProgram(
      signature,
      { inputs, ...own },
      executorsOf({
        lookup: (step, _keys, signal) => {
          if (step.output === 2) {
            return Promise.reject(
              new WinnowError("INVALID_ARGUMENT", "indices[0] = 9 is not in [0, 5)"),
            );
          }
          return new Promise((_resolve, reject) => {
            const end = (): void => {
              aborted.push(step.node);
              reject(signal.reason);
            };
            signal.addEventListener("abort", end, { once: true });
          });
        },
      }),
    );

    await expect(run).rejects.toThrow("is not in [0, 5)\n\t [[{{node gather_2}}]]");
    expect(aborted).toEqual(["gather_3"]);
  });

  test.each([
    [
      "waits for the other",
      [lookup(0, 2), host("Identity", [2], [3]), topK(3, { scores: 4 })],
      true,
    ],
    ["stands beside the other", [lookup(0, 2), lookup(1, 3), host("AddV2", [2, 3], [4])], false],
  ] as const)("gives steps the request's own signal where one %s", async (_, steps, isShared) => {
    const { signal } = new AbortController();
    const given: boolean[] = [];
    const note = (signalOfStep: Signal): void => void given.push(signalOfStep === signal);
    const executors = executorsOf({
      lookup: (_step, _keys, signalOfStep) => {
        note(signalOfStep);
        return Promise.resolve(floats([2, 2]));
      },
      topK: (_step, _question, signalOfStep) => {
        note(signalOfStep);
        return Promise.reject(new WinnowError("UNAVAILABLE", "no replica of partition 3"));
      },
    });

    const run = runProgram(signatureOf(steps, { scores: 4 }), { inputs, signal }, executors);

    await Promise.allSettled([run]);
    expect(given).toEqual([isShared, isShared]);
  });

  test.each(["UNAVAILABLE", "RESOURCE_EXHAUSTED"] as const)(
    "passes %s on as it is",
    async (code) => {
      const lost = new WinnowError(code, "no replica of partition 3");
      const signature = signatureOf([lookup(0, 2)], { rows: 2 });

      const run = runProgram(
        signature,
        { inputs },
        executorsOf({ lookup: () => Promise.reject(lost) }),
      );

      await expect(run).rejects.toBe(lost);
    },
  );

  test("ends with the signal's reason when the request is aborted", async () => {
    const controller = new AbortController();
    const late = new WinnowError("DEADLINE_EXCEEDED", "too late");
    const never = executorsOf({ lookup: () => new Promise(() => undefined) });
    const signature = signatureOf([lookup(0, 2)], { rows: 2 });
    const run = runProgram(signature, { inputs, signal: controller.signal }, never);

    controller.abort(late);

    await expect(run).rejects.toBe(late);
    expect(
      await codeOf(runProgram(signature, { inputs, signal: AbortSignal.abort() }, never)),
    ).toBe("CANCELLED");
  });

  test.each([
    ["a missing input", new Map([["user", stringTensor(["a"])]])],
    ["an unknown input", new Map([...inputs, ["other", stringTensor(["a"])]])],
    ["another element type", new Map([...inputs, ["movie", floats([2])]])],
    ["another rank", new Map([...inputs, ["movie", stringTensor(["a"], [1, 1])]])],
  ])("refuses %s as INVALID_ARGUMENT", async (_, given) => {
    const signature = signatureOf([], { user: 0 });

    expect(await codeOf(runProgram(signature, { inputs: given }, executorsOf()))).toBe(
      "INVALID_ARGUMENT",
    );
  });

  test("asks for the request's k instead of the signature's", async () => {
    const asked: TopKQuestion[] = [];
    const executors = executorsOf();
    const signature = signatureOf([lookup(0, 2), topK(2, { rows: 3 })], { rows: 3 });

    const outputs = await runProgram(
      signature,
      { inputs, k: 5 },
      {
        ...executors,
        topK: (step, question, signal) => {
          asked.push(question);
          return executors.topK(step, question, signal);
        },
      },
    );

    expect(asked.map(({ k }) => k)).toEqual([5]);
    expect(outputs.get("rows")?.shape).toEqual([2, 5]);
  });

  test("more candidates than the table has rows: refused, or capped where the layer caps", async () => {
    const strict = signatureOf([lookup(0, 2), topK(2, { scores: 3 })], { scores: 3 });
    const capped = signatureOf([lookup(0, 2), topK(2, { scores: 3, capped: true })], { scores: 3 });

    await expect(runProgram(strict, { inputs, k: 6 }, executorsOf())).rejects.toThrow(
      "input must have at least k columns. Had 5, needed 6",
    );
    const outputs = await runProgram(capped, { inputs, k: 6 }, executorsOf());
    expect(outputs.get("scores")?.shape).toEqual([2, 5]);
  });

  test("a partial answer may hold fewer than k, a complete one may not", async () => {
    const signature = signatureOf([lookup(0, 2), topK(2, { scores: 3 })], { scores: 3 });
    const short = { scores: floats([2, 1]), rows: undefined, ids: undefined };
    const partial = { ...short, counts: Uint32Array.of(1, 1) };

    const complete = executorsOf({ topK: () => Promise.resolve(short) });
    const lossy = executorsOf({ topK: () => Promise.resolve(partial) });

    expect(await codeOf(runProgram(signature, { inputs }, complete))).toBe("INTERNAL");
    expect((await runProgram(signature, { inputs }, lossy)).get("scores")?.shape).toEqual([2, 1]);
  });

  test("lists of different lengths pass steps that map each row by itself, such as a gather of ids", async () => {
    const gather: Step = { ...(host("GatherV2", [8, 3, 9], [4]) as HostStep), node: "ids" };
    const signature: SignatureProgram = {
      ...signatureOf([lookup(0, 2), topK(2, { scores: 5, rows: 3 }), gather], { ids: 4 }),
      constants: [
        { value: 8, tensor: stringTensor(["a", "b", "c", "d", "e"]) },
        { value: 9, tensor: tensorOf("int32", [], Int32Array.of(0)) },
      ],
    };
    const rows = tensorOf("int32", [2, 3], Int32Array.of(4, 0, 0, 1, 3, 2));
    const counts = Uint32Array.of(1, 3);
    const ragged = { scores: floats([2, 3]), rows, ids: undefined, counts };
    const executors = executorsOf({ topK: () => Promise.resolve(ragged) });

    const ids = (await runProgram(signature, { inputs }, executors)).get("ids")!;

    expect(ids).toMatchObject({ shape: [2, 3], rowLengths: counts });
    const texts = ids.dtype === "string" ? ids.data.toText() : [];
    expect([texts.slice(0, 1), texts.slice(3)]).toEqual([["e"], ["b", "d", "c"]]);
  });

  test("lists of different lengths are told by output, and no step computes with them", async () => {
    const signature = signatureOf([lookup(0, 2), topK(2, { scores: 3 })], { scores: 3 });
    const computing = signatureOf([lookup(0, 2), topK(2, { scores: 3 }), host("Abs", [3], [4])], {
      scores: 4,
    });
    const scores = floats([2, 3]);
    const ragged = { scores, rows: undefined, ids: undefined, counts: Uint32Array.of(1, 3) };
    const executors = executorsOf({ topK: () => Promise.resolve(ragged) });

    const outputs = await runProgram(signature, { inputs }, executors);

    expect(outputs.get("scores")).toEqual({ ...scores, rowLengths: Uint32Array.of(1, 3) });
    await expect(runProgram(computing, { inputs }, executors)).rejects.toThrow(
      "The request admits 1 items for instance 0 and 3 for instance 1",
    );
  });

  test("rows of another shape than the table's are INTERNAL", async () => {
    const signature = signatureOf([lookup(0, 2)], { rows: 2 });
    const wrong = executorsOf({ lookup: () => Promise.resolve(floats([2, 3])) });

    expect(await codeOf(runProgram(signature, { inputs }, wrong))).toBe("INTERNAL");
  });

  test("a chain of ten thousand steps does not exhaust the stack", async () => {
    const steps = Array.from({ length: 10_000 }, (_, at) => {
      return host("Identity", [at === 0 ? 0 : at + 1], [at + 2]);
    });
    const signature = signatureOf(steps, { user: 10_001 });

    expect((await runProgram(signature, { inputs }, executorsOf())).get("user")).toEqual(
      inputs.get("user"),
    );
  });
});

describe("a branch", () => {
  test.each([
    ["a true scalar", yes, true],
    ["a false scalar", no, false],
    ["a number", tensorOf("int32", [], Int32Array.of(-2)), true],
    ["zero", tensorOf("float32", [], Float32Array.of(-0)), false],
    ["an empty string", stringTensor([""], []), false],
    ["text", stringTensor(["0"], []), true],
    ["a vector of false", tensorOf("bool", [1], Uint8Array.of(0)), true],
    ["an empty vector", tensorOf("bool", [0], new Uint8Array()), false],
  ] as const)("alone is run where %s decides", async (_, decision, isTrue) => {
    const keys: Tensor[] = [];
    const executors = executorsOf({
      lookup: (_step, given) => {
        keys.push(given);
        return Promise.resolve(floats([...given.shape, 2]));
      },
    });

    const outputs = await runProgram(branching(decision), { inputs }, executors);

    expect(keys).toEqual([inputs.get(isTrue ? "user" : "movie")]);
    expect(outputs.get("rows")).toEqual(floats([2, 2], isTrue ? -1 : 1));
  });

  test("that is not taken cannot fail", async () => {
    const refused = new WinnowError("INVALID_ARGUMENT", "indices[0] = 9 is not in [0, 5)");
    const executors = executorsOf({
      lookup: (_step, keys) =>
        keys === inputs.get("movie")
          ? Promise.reject(refused)
          : Promise.resolve(floats([...keys.shape, 2])),
    });

    expect(await codeOf(runProgram(branching(yes), { inputs }, executors))).toBe("done");
    expect(await codeOf(runProgram(branching(no), { inputs }, executors))).toBe("INVALID_ARGUMENT");
  });

  test("within one that is not taken stays out, whatever its own predicate would be", async () => {
    const steps: readonly Step[] = [
      { ...host("LogicalNot", [9], [2]), when: { predicate: 9, isTrue: true } },
      { ...host("Assert", [8, 0], []), when: { predicate: 2, isTrue: false } },
      { ...host("StringLower", [0], [3]), when: { predicate: 2, isTrue: true } },
      {
        kind: "choice",
        node: "inner",
        predicate: 2,
        branches: [3, 0],
        output: 4,
        when: { predicate: 9, isTrue: true },
      },
      { kind: "choice", node: "outer", predicate: 9, branches: [4, 1], output: 5 },
    ];
    const constants = [
      { value: 8, tensor: no },
      { value: 9, tensor: no },
    ];
    const signature = { ...signatureOf(steps, { name: 5 }), constants };

    const outputs = await runProgram(signature, { inputs }, executorsOf());

    expect(outputs.get("name")).toEqual(inputs.get("movie"));
  });
});

describe("long host steps", () => {
  const lower = signatureOf([host("StringLower", [0], [2]), host("StringUpper", [2], [3])], {
    texts: 3,
  });

  test("are done where the executor says; others are done at once", async () => {
    const asked: string[] = [];
    const answer = await runProgram(
      lower,
      { inputs },
      executorsOf({
        host: (step, given) => {
          asked.push(step.op);
          if (step.op !== "StringLower") return undefined;
          return Promise.resolve([{ ...given[0]!, data: stringTensor(["x", "y"]).data } as Tensor]);
        },
      }),
    );

    expect(asked).toEqual(["StringLower", "StringUpper"]);
    expect(answer.get("texts")).toEqual(stringTensor(["X", "Y"]));
  });

  test("that read a large constant are done at once, as it would go along", async () => {
    const table = stringTensor(Array.from({ length: 1000 }, (_, at) => `title ${at}`));
    const gather = host("GatherV2", [9, 8, 7], [3]);
    const places = tensorOf("int64", [1], BigInt64Array.of(5n));
    const axis = tensorOf("int32", [], Int32Array.of(0));
    const signature = {
      ...signatureOf([gather], { texts: 3 }),
      constants: [
        { value: 9, tensor: table },
        { value: 8, tensor: places },
        { value: 7, tensor: axis },
      ],
    };
    const elsewhere = executorsOf({ host: () => Promise.reject(new RangeError("asked")) });

    const answer = await runProgram(signature, { inputs }, elsewhere);

    expect(answer.get("texts")).toEqual(stringTensor(["title 5"]));
  });

  test("that fail elsewhere fail the run as they say", async () => {
    const failure = new WinnowError("RESOURCE_EXHAUSTED", "too long");
    const run = runProgram(lower, { inputs }, executorsOf({ host: () => Promise.reject(failure) }));

    await expect(run).rejects.toBe(failure);
  });

  test("leave the event loop a turn between them, in which a run can be cancelled", async () => {
    const many = new Map([
      ["user", stringTensor(["a".repeat(300_000)])],
      ["movie", stringTensor(["b"])],
    ]);
    const abort = new AbortController();
    setImmediate(() => abort.abort());
    const run = runProgram(lower, { inputs: many, signal: abort.signal }, executorsOf());

    await expect(run).rejects.toMatchObject({ code: "CANCELLED" });
    const whole = await runProgram(lower, { inputs: many }, executorsOf());
    expect(whole.get("texts")).toEqual(stringTensor(["A".repeat(300_000)]));
  });
});
