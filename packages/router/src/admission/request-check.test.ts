// What a request is reckoned at before it runs, where its own inputs say how much is searched for.

import { fingerprint, tensor } from "@winnow/core";
import type {
  AttributeColumn,
  ModelProgram,
  PipelineStage,
  SignatureProgram,
  Step,
  Tensor,
} from "@winnow/core";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type { PredictRequest } from "../predictor.ts";
import { RequestContext } from "../request-context.ts";
import { resolveRouterOptions } from "../router-settings.ts";
import { checkPipelineRequest, checkRequest } from "./request-check.ts";
import type { CheckedRequest } from "./request-check.ts";

const settings = resolveRouterOptions();
const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });

/** A search of a million items of 4 values, whose k is the input `k`. */
const signatureOfK: SignatureProgram = {
  name: "serving_default",
  methodName: "tensorflow/serving/predict",
  inputs: [
    { name: "k", graphTensor: "k:0", value: 1, dtype: "int32", shape: [] },
    { name: "query", graphTensor: "query:0", value: 0, dtype: "float32", shape: [-1, 4] },
  ],
  outputs: [],
  constants: [],
  steps: [
    {
      kind: "topK",
      table: 0,
      node: "top_k",
      query: 0,
      k: { value: 1 },
      capped: false,
      scores: 2,
      rows: undefined,
      ids: undefined,
    },
  ],
};

interface Asked {
  readonly k: number;
  readonly instances?: number;
  readonly rows?: number;
  /** The k beside the inputs. */
  readonly wished?: number;
  /** Vectors of each query. */
  readonly vectors?: number;
}

function checked(asked: Asked): CheckedRequest {
  const { k, instances = 1, rows = 1_000_000, wished, vectors } = asked;
  const steps = signatureOfK.steps.map((step) => ({ ...step, vectors }) as Step);
  const signature = vectors === undefined ? signatureOfK : { ...signatureOfK, steps };
  const table = { kind: "candidate", name: "items", dim: 4, partitions: 1, sources: [] } as const;
  const program: ModelProgram = {
    fingerprint: fingerprint("ab"),
    tables: [{ ...table, rows, idDtype: "int32" }],
    vocabularies: [],
    denseModels: [],
    signatures: [signature],
  };
  const inputs = new Map<string, Tensor>([
    ["k", tensor("int32", [], Int32Array.of(k))],
    ["query", tensor("float32", [instances, 4], new Float32Array(instances * 4))],
  ]);
  return checkRequest(program, { signature, inputs, context, k: wished }, settings);
}

describe("a request that says k as an input", () => {
  test("is reckoned by it", () => {
    expect(checked({ k: 10, instances: 8 }).rows).toBe(8);
    // A slice of so many candidates takes fewer queries.
    expect(checked({ k: 4000, instances: 8 }).rows).toBeGreaterThan(8 * 8);
    expect(checked({ k: 0, instances: 8 }).rows).toBe(8);
  });

  test("is reckoned by each vector of its queries, and so are the items that it finds", () => {
    expect(checked({ k: 10, instances: 8, vectors: 4 }).rows).toBe(32);
    expect(() => checked({ k: 4096, instances: 200, vectors: 4 })).toThrow(
      /would have 3276800 items/,
    );
  });

  test("is held to the limit of k, and told so", () => {
    expect(() => checked({ k: 5000 })).toThrow(
      'k is 5000, as input "k" says; at most 4096 is allowed (kMax)',
    );
    expect(() => checked({ k: 4096, instances: 4096 })).toThrow(
      /would have 16777216 items; at most 1677721/,
    );
  });

  test("beyond the items, or below 0, is left to the run, which says so in TensorFlow's words", () => {
    expect(checked({ k: 5000, rows: 40 }).rows).toBe(1);
    expect(checked({ k: -3 }).rows).toBe(1);
  });

  test("and k beside the inputs as well goes by the latter", () => {
    expect(checked({ k: 5000, wished: 3 })).toMatchObject({ k: 3, rows: 1 });
  });
});

describe("a request that wants vectors", () => {
  const table = { kind: "candidate", name: "items", dim: 400, partitions: 1, sources: [] } as const;
  const program: ModelProgram = {
    fingerprint: fingerprint("ab"),
    tables: [{ ...table, rows: 9000, idDtype: "int32" }],
    vocabularies: [],
    denseModels: [],
    signatures: [],
  };
  const outputsOf = (...names: readonly string[]) =>
    names.map(
      (name) => ({ name, graphTensor: "", value: 2, dtype: "float32", shape: [-1] }) as const,
    );
  const check = (
    signature: SignatureProgram,
    k = 9,
    of: Partial<ModelProgram> = {},
  ): CheckedRequest => {
    const inputs = new Map<string, Tensor>([
      ["k", tensor("int32", [], Int32Array.of(k))],
      ["query", tensor("float32", [1, 400], new Float32Array(400))],
    ]);
    const wanted = { attributes: ["$vector"], vectors: true };
    return checkRequest({ ...program, ...of }, { signature, inputs, context, ...wanted }, settings);
  };

  test("needs a signature that searches items, and is told which of them does not", () => {
    const searching = { ...signatureOfK, outputs: outputsOf("scores") };
    const plain = { ...signatureOfK, steps: [] };
    const text = 'Cannot apply "return_vectors": signature "serving_default"';
    const obstacle = { node: "mul_3", op: "Mul" };
    const uncut = [{ tensor: "items", bytes: 9, ranking: "TopKV2", obstacle }];

    expect(() => check(searching)).not.toThrow();
    expect(() => check(plain)).toThrow(`${text} searches no candidate table`);
    expect(() => check(plain, 9, { uncutTables: uncut })).toThrow(
      `${text} searches no candidate table: operation Mul (node mul_3) keeps items from being cut`,
    );
    expect(() => check({ ...signatureOfK, outputs: outputsOf("scores", "vectors") })).toThrow(
      `${text} has an output "vectors" of its own`,
    );
    expect(() =>
      check({ ...signatureOfK, outputs: outputsOf("scores", "attributes") }),
    ).not.toThrow();
  });

  test("is held to the attributes of an answer, a long vector counted for several", () => {
    const searching = { ...signatureOfK, outputs: outputsOf("scores") };

    expect(() => check(searching, 4096)).not.toThrow();
    expect(() => check(searching, 4097)).toThrow(/at most 4096/);
    expect(() =>
      check({ ...searching, outputs: outputsOf("scores") }, 4096, {
        tables: [{ ...program.tables[0]!, dim: 800 }],
      }),
    ).toThrow(
      /would give 12288 attributes; at most 8192 .*a vector counts as one attribute per 384 values; of a pipeline, all candidates/,
    );
  });
});

describe("a request for items that a dense part ranks", () => {
  const ranking = { node: "top_k", scores: "z", items: 2 ** 20, k: 9, best: "y", rows: "r" };
  const outputOf = (name: string, value: number, dtype: "float32" | "int32") => {
    return { name, graphTensor: "", value, dtype, shape: undefined } as const;
  };
  const signature: SignatureProgram = {
    ...signatureOfK,
    inputs: signatureOfK.inputs.slice(1),
    outputs: [outputOf("scores", 2, "float32"), outputOf("rows", 3, "int32")],
    steps: [
      {
        kind: "dense",
        model: 0,
        inputs: [{ name: "x", value: 0 }],
        outputs: [outputOf("y", 2, "float32"), outputOf("r", 3, "int32")],
        rankings: [ranking],
      },
    ],
  };
  const check = (
    instances: number,
    wishes: Partial<PredictRequest>,
    of: SignatureProgram = signature,
  ): CheckedRequest => {
    const program: ModelProgram = {
      fingerprint: fingerprint("ab"),
      tables: [
        {
          kind: "candidate",
          name: "others",
          rows: 100,
          dim: 4,
          partitions: 1,
          sources: [],
          idDtype: "string",
          attributes: [year.spec],
        },
      ],
      vocabularies: [],
      denseModels: [new Uint8Array()],
      signatures: [of],
      rankedItems: [{ columns: [year] }],
      uncutTables: [
        {
          tensor: "items",
          bytes: 9,
          ranking: "top_k",
          obstacle: { node: "mul_3", op: "Mul" },
        },
      ],
    };
    const query = tensor("float32", [instances, 4], new Float32Array(instances * 4));
    const inputs = new Map<string, Tensor>([["query", query]]);
    return checkRequest(program, { signature: of, inputs, context, ...wishes }, settings);
  };
  const ids = [tensor("int64", [1], BigInt64Array.of(3n))];

  test("costs what it ranks, but nothing where the dense part does", () => {
    expect(check(4, {})).toMatchObject({ rows: 0, candidates: 0, k: undefined });
    expect(check(4, { k: 3 })).toMatchObject({ rows: 4 + 64, candidates: 12, k: 3 });
    expect(check(4, { exclude: ids })).toMatchObject({ rows: 68, candidates: 36 });
  });

  const year: AttributeColumn = {
    spec: { name: "year", type: "integer", isList: false },
    values: Float64Array.of(1990),
    codes: new Uint8Array(2 ** 20),
  };
  const described = {
    ...signature,
    steps: signature.steps.map((step) => {
      return { ...step, rankings: [{ ...ranking, described: 0 }] } as Step;
    }),
  };
  const isOf1990 = { kind: "test", attribute: "year", is: "in", values: [1990] } as const;

  test("is refused beyond 16,777,216 scores, and with what nobody knows of the items", () => {
    const filter = [{ kind: "and", of: [] }] as const;
    const where = 'signature "serving_default" ranks items within a dense part: operation Mul';
    const nothing = "the version brings no attributes of its items; an assets.extra/items.parquet";

    expect(() => check(16, { k: 3 })).not.toThrow();
    expect(() => check(17, { k: 3 })).toThrow(
      "Cannot rank 17825792 scores, 1048576 for each of 17 instances: at most 16777216",
    );
    expect(() => check(1, { filter })).toThrow(`Cannot apply "filter": ${nothing}`);
    expect(() => check(1, { attributes: ["year"] })).toThrow(`Cannot apply "return": ${nothing}`);
    const vectors = { attributes: ["$vector"], vectors: true };
    expect(() => check(1, vectors, described)).toThrow(`Cannot apply "return_vectors": ${where}`);
    expect(() => check(1, { attributes: ["year", "$vector"] }, described)).toThrow(
      `Cannot apply "$vector": ${where}`,
    );
    expect(() => check(1, vectors, described)).toThrow(
      '"k", "exclude", "include", "filter" and "return" work as it is',
    );
  });

  test("reads a filter once that stands for many instances", () => {
    let reads = 0;
    const values = [1990];
    const counted = {
      ...isOf1990,
      get values() {
        reads += 1;
        return values;
      },
    };
    check(1, { filter: [counted] }, described);
    const once = reads;

    check(4, { filter: [counted, counted, counted, counted] }, described);

    expect(reads).toBe(2 * once);
  });

  test("costs what its filters test, and names the nearest attribute where it has none of a name", () => {
    const filter = [isOf1990, { kind: "not", of: isOf1990 }] as const;
    const misnamed = [{ ...isOf1990, attribute: "yaer" }];

    expect(check(2, { filter }, described)).toMatchObject({
      rows: 2 + (2 * 16 + 2 * 16) + 2,
      candidates: 18,
      conditions: { filters: [{ conditions: 1 }, { conditions: 1 }] },
    });
    expect(check(2, { attributes: ["year"] }, described)).toMatchObject({ rows: 1, candidates: 0 });
    expect(() => check(1, { filter: misnamed }, described)).toThrow('did you mean "year"?');
    expect(() => check(1, { attributes: ["yaer"] }, described)).toThrow('did you mean "year"?');
    expect(() => check(3, { k: 4000, attributes: ["year"] }, described)).toThrow(
      /would give 12000 attributes; at most 8192/,
    );
  });

  test("is answered with attributes only where it is the one thing that a signature finds", () => {
    const [dense] = described.steps;
    const twice = { ...described, steps: [dense!, dense!] };

    expect(() => check(1, { filter: [isOf1990] }, twice)).not.toThrow();
    expect(() => check(1, { attributes: ["year"] }, twice)).toThrow(
      "does not answer the items of one search as they were found",
    );
  });

  test("is nothing to describe beside a search, whose items are what is answered", () => {
    const [dense] = signature.steps;
    const found = { kind: "topK", table: 0, node: "best", query: 0, k: 3, capped: true } as const;
    const search: Step = { ...found, scores: 5, rows: undefined, ids: undefined };
    const outputs = [outputOf("found", 5, "float32")];
    const searching = { ...signature, outputs, steps: [dense!, search] };
    const attributes = ["year", "$vector"];

    expect(check(2, { attributes, vectors: true }, searching)).toMatchObject({ candidates: 6 });
    expect(() => check(2, { filter: [isOf1990] }, searching)).toThrow(
      "the version brings no attributes of its items",
    );
  });

  test("takes no ids where the signature answers none", () => {
    const [scores] = signature.outputs;
    const steps = signature.steps.map((step) => {
      return { ...step, rankings: [{ ...ranking, node: "other" }] } as Step;
    });
    const nameless = { ...signature, outputs: [scores!], steps };

    expect(() => check(1, { k: 3 }, nameless)).not.toThrow();
    expect(() => check(1, { include: ids }, nameless)).toThrow(
      'Cannot apply "include": the signature does not answer an id for each row of node other',
    );
    expect(() => check(1, { filter: [isOf1990] }, nameless)).toThrow(
      'Cannot apply "filter": the signature does not answer an id for each row of node other',
    );
  });
});

describe("a pipeline that is to be explained", () => {
  const member = { signature: "serving_default", inputs: [], scores: "s" };
  const retrieve = (k: number): PipelineStage => {
    return { kind: "retrieve", model: "movies", ...member, k, ids: "i" };
  };
  const check = (instances: number, ...stages: readonly PipelineStage[]): void => {
    const users = { name: "user", graphTensor: "user:0", value: 0, dtype: "int32", shape: [-1] };
    const signature = { ...signatureOfK, inputs: [users], steps: [] } as SignatureProgram;
    const inputs = new Map([["user", tensor("int32", [instances], new Int32Array(instances))]]);
    const pipeline = { stages, outputs: { scores: "scores", ids: "ids" } };
    checkPipelineRequest(pipeline, { signature, inputs, context, explain: true }, settings);
  };
  const quotas: PipelineStage = {
    kind: "merge",
    by: "quotas",
    parts: [10, 6].map((value) => ({ name: `n${value}`, value })),
  };
  const weights: PipelineStage = { ...quotas, by: "weights" };
  const ranks: PipelineStage = { ...quotas, by: "reciprocal-ranks", constant: 60 };
  const mmr: PipelineStage = { kind: "diversify", by: "mmr", balance: 0.5, count: 20 };
  const perValue: PipelineStage = { kind: "diversify", by: "at-most", attribute: "a", count: 1 };
  const filter: PipelineStage = { kind: "filter", filter: "" };

  test("has one value, or one list, for each instance in every input", () => {
    const given = (name: string, ...inner: number[]) => {
      const shape = [-1, ...inner];
      return { name, graphTensor: "", value: 0, dtype: "int32", shape } as const;
    };
    const inputsOf = [given("user"), given("watched", 3)];
    const signature = { ...signatureOfK, inputs: inputsOf, steps: [] } as SignatureProgram;
    const zeros = (...shape: number[]): Tensor => {
      return tensor("int32", shape, new Int32Array(shape.reduce((all, each) => all * each, 1)));
    };
    const asked = (user: Tensor, watched: Tensor) => {
      const inputs = new Map([
        ["user", user],
        ["watched", watched],
      ]);
      const pipeline = { stages: [retrieve(1)], outputs: { scores: "scores", ids: "ids" } };
      checkPipelineRequest(pipeline, { signature, inputs, context }, settings);
    };

    expect(() => asked(zeros(2), zeros(2, 3))).not.toThrow();
    expect(() => asked(zeros(1, 2), zeros(1, 3))).toThrow(
      'Input "user" must have shape [?], not [1,2]',
    );
    expect(() => asked(zeros(2), zeros(2, 4))).toThrow(
      'Input "watched" must have shape [?,3], not [2,4]',
    );
    expect(() => asked(zeros(1), zeros(2, 3))).toThrow(
      'Input "user" has values for 1 instances, not for 2; a pipeline needs them for each',
    );
    expect(() => asked(zeros(0), zeros(0, 3))).toThrow('Input "user" has no values');
  });

  test("names at most 1,024 items to which similar ones are retrieved", () => {
    const alike = { ...retrieve(1), like: "user" } as PipelineStage;

    expect(() => check(1024, alike)).not.toThrow();
    expect(() => check(1025, alike)).toThrow(
      "Cannot retrieve items like 1025 items: 1025 instances, 1 items of each in 1 inputs of retrievals; at most 1024 in all",
    );
    expect(() => check(513, { ...alike, unlike: "user" } as PipelineStage)).toThrow(
      "2 items of each in 2 inputs",
    );
    expect(() => check(513, alike, alike)).toThrow("Cannot retrieve items like 1026 items");
  });

  test.each<[string, number, readonly PipelineStage[]]>([
    ["what a retrieval and a filter give", 2000, [retrieve(1000), filter]],
    ["a limit after all", 1004, [retrieve(1000), { kind: "limit", count: 4 }]],
    ["no more than there are", 200, [retrieve(100), { kind: "limit", count: 4096 }]],
    ["several retrievals and their merge by quotas", 46, [retrieve(10), retrieve(20), quotas]],
    ["several retrievals and their merge by weights", 60, [retrieve(10), retrieve(20), weights]],
    ["several retrievals and their merge by ranks", 60, [retrieve(10), retrieve(20), ranks]],
    ["as many as MMR takes", 120, [retrieve(100), mmr]],
    ["all that have a value of their own", 200, [retrieve(100), perValue]],
  ])("counts %s", (_, told, stages) => {
    const instances = Math.floor(65_536 / told);
    expect(() => check(instances, ...stages)).not.toThrow();
    expect(() => check(instances + 1, ...stages)).toThrow(
      `Cannot explain ${told} candidates of all stages of ${instances + 1} instances each; at most 65536`,
    );
  });
});
