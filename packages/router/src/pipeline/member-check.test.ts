// What a pipeline lacks, by stage: models, signatures, inputs, outputs and their types.

import { fingerprint } from "@winnow/core";
import type {
  AttributeSpec,
  Dtype,
  ModelProgram,
  PipelineStage,
  RetrieveStage,
  Step,
  TableSpec,
  TopKStep,
  UnknownAnswer,
} from "@winnow/core";
import { describe, expect, test } from "vitest";
import { lackOf } from "./member-check.ts";

type Types = Readonly<Record<string, Dtype>>;

const tensors = (types: Types) =>
  Object.entries(types).map(([name, dtype]) => {
    return { name, dtype, shape: [-1], value: 0, graphTensor: "" };
  });

function modelOf(inputs: Types, outputs: Types, stages?: readonly PipelineStage[]): ModelProgram {
  const signature = {
    name: "serving_default",
    methodName: "",
    constants: [],
    steps: [],
    inputs: tensors(inputs),
    outputs: tensors(outputs),
  };
  const none = { tables: [], vocabularies: [], denseModels: [] };
  const pipeline = stages && { stages, outputs: { scores: "output_1", ids: "output_2" } };
  return { fingerprint: fingerprint("f"), ...none, signatures: [signature], pipeline };
}

/** A model whose signature searches items with these attributes. */
function searching(model: ModelProgram, attributes?: readonly AttributeSpec[]): ModelProgram {
  const table: TableSpec = {
    kind: "candidate",
    name: "items",
    rows: 1,
    dim: 1,
    partitions: 1,
    idDtype: "string",
    attributes,
  } as unknown as TableSpec;
  const search = { kind: "topK", table: 0 } as unknown as TopKStep;
  const signatures = model.signatures.map((each) => ({ ...each, steps: [search] }));
  return { ...model, tables: [table], signatures };
}

/** A model whose dense part ranks items with these attributes. */
function uncut(model: ModelProgram, attributes: readonly AttributeSpec[]): ModelProgram {
  const columns = attributes.map((spec) => ({ spec, values: [], codes: [] }));
  const step = { kind: "dense", outputs: [], rankings: [{ items: 0, described: 0 }] };
  const signatures = model.signatures.map((each) => ({ ...each, steps: [step] }));
  return { ...model, rankedItems: [{ columns }], signatures } as unknown as ModelProgram;
}

const signature = "serving_default";
const retrieve: RetrieveStage = {
  kind: "retrieve",
  model: "movies",
  signature,
  k: 9,
  inputs: [{ name: "user", from: "user_id" }],
  scores: "output_1",
  ids: "output_2",
};
const rank: PipelineStage = {
  kind: "rank",
  model: "ranking",
  signature,
  inputs: [
    { name: "user", from: { kind: "request", input: "user_id" } },
    { name: "movie", from: { kind: "item" } },
    { name: "before", from: { kind: "score" } },
  ],
  scores: "output_1",
  heads: [{ name: "watch", output: "output_2" }],
};
const pipeline = modelOf({ user_id: "string" }, {}, [retrieve, rank, { kind: "limit", count: 3 }]);
const movies = modelOf({ user: "string" }, { output_1: "float32", output_2: "string" });
const rankingInputs: Types = { user: "string", movie: "string", before: "float32" };
const heads: Types = { output_1: "float32", output_2: "float32" };
const ranking = modelOf(rankingInputs, heads);

const lack = (members: Readonly<Record<string, ModelProgram>>): string | undefined =>
  lackOf(pipeline, (name) => members[name] ?? { missing: "nobody has it" });

describe("a pipeline", () => {
  test("lacks nothing where each model has what its stage names", () => {
    expect(lack({ movies, ranking })).toBeUndefined();
    expect(lackOf(movies, () => ({ missing: "never asked" }))).toBeUndefined();
  });

  test("that excludes what was seen lacks a router that can tell", () => {
    const seen = {
      kind: "seen",
      key: "seen:{user_id}",
      type: "set",
      countMax: 9,
      budgetMs: 9,
    } as const;
    const excluding = modelOf({ user_id: "string" }, {}, [retrieve, seen]);
    expect(lackOf(excluding, () => movies, true)).toBeUndefined();
    expect(lackOf(excluding, () => movies, false)).toMatch(/^stages\[1\]\.seen: .*--seen-redis/);
  });

  test.each<[string, Readonly<Record<string, ModelProgram>>]>([
    ["stages[0].retrieve: model movies cannot answer: nobody has it", { ranking }],
    ["stages[1].rank: model ranking cannot answer: nobody has it", { movies }],
    [
      "stages[1].rank: model ranking is a pipeline; name the models that it asks",
      { movies, ranking: pipeline },
    ],
    [
      'stages[1].rank: model ranking has no signature "serving_default", but other',
      {
        movies,
        ranking: { ...ranking, signatures: [{ ...ranking.signatures[0]!, name: "other" }] },
      },
    ],
    [
      'stages[0].retrieve: model movies has no output "output_2", but output_1; name one as "ids"',
      { movies: modelOf({ user: "string" }, { output_1: "float32" }), ranking },
    ],
    [
      'stages[1].rank: model ranking has no output "output_1", but output_2; name one as "scores"',
      { movies, ranking: modelOf(rankingInputs, { output_2: "float32" }) },
    ],
    [
      'stages[1].rank: output "output_1" of model ranking is int64, not float32',
      { movies, ranking: modelOf(rankingInputs, { ...heads, output_1: "int64" }) },
    ],
    [
      'stages[1].rank: model ranking has no output "output_2", but output_1',
      { movies, ranking: modelOf(rankingInputs, { output_1: "float32" }) },
    ],
    [
      'stages[1].rank: model ranking has no input "before", but user, movie',
      { movies, ranking: modelOf({ user: "string", movie: "string" }, heads) },
    ],
    [
      'stages[1].rank: model ranking needs input "year", which the stage does not give',
      { movies, ranking: modelOf({ ...rankingInputs, year: "int64" }, heads) },
    ],
    [
      'stages[0].retrieve: input "user" of model movies takes int64, not string',
      { movies: modelOf({ user: "int64" }, { output_1: "float32", output_2: "string" }), ranking },
    ],
    [
      'stages[1].rank: input "movie" of model ranking takes string, not int64',
      { movies: modelOf({ user: "string" }, { output_1: "float32", output_2: "int64" }), ranking },
    ],
    [
      'stages[1].rank: input "before" of model ranking takes float64, not float32',
      {
        movies,
        ranking: modelOf({ ...rankingInputs, before: "float64" }, heads),
      },
    ],
  ])("says: %s", (text, members) => {
    expect(lack(members)).toBe(text);
  });

  test("lacks inputs of the shape that its models take", () => {
    const shaped = (model: ModelProgram, shape: readonly number[] | undefined): ModelProgram => {
      const signatures = model.signatures.map((each) => {
        return { ...each, inputs: each.inputs.map((given) => ({ ...given, shape })) };
      });
      return { ...model, signatures };
    };
    const lackBetween = (given: readonly number[], taken: readonly number[] | undefined) =>
      lackOf(shaped(modelOf({ user_id: "string" }, {}, [retrieve]), given), () =>
        shaped(movies, taken),
      );
    const at = 'stages[0].retrieve: input "user" of model movies takes string of shape';

    expect(lackBetween([-1], [-1, 1])).toBeUndefined();
    expect(lackBetween([-1], undefined)).toBeUndefined();
    expect(lackBetween([-1, 10], [-1, 10])).toBeUndefined();
    expect(lackBetween([-1, 10], [-1, -1])).toBeUndefined();
    expect(lackBetween([-1, -1], [-1, -1])).toBeUndefined();
    expect(lackBetween([-1], [-1, 10])).toBe(`${at} [-1,10], not one value for each row`);
    expect(lackBetween([-1, 9], [-1, 10])).toBe(`${at} [-1,10], not a list of 9 for each row`);
    expect(lackBetween([-1, -1], [-1, 10])).toBe(
      `${at} [-1,10], not a list of any length for each row`,
    );
    expect(lackBetween([-1, 10], [-1])).toBe(`${at} [-1], not a list of 10 for each row`);
    expect(lackBetween([-1, 3], [-1, 3, 3])).toBe(`${at} [-1,3,3], not a list of 3 for each row`);
  });

  test("with a filter lacks attributes that its retrieval's items do not have", () => {
    const filter: PipelineStage = { kind: "filter", filter: '["gte","year",[1990]]' };
    const filtered = modelOf({ user_id: "string" }, {}, [retrieve, rank, filter]);
    const lackWith = (...attributes: readonly AttributeSpec[]): string | undefined =>
      lackOf(filtered, (name) => (name === "movies" ? searching(movies, attributes) : ranking));
    const plain = lackOf(filtered, (name) => (name === "movies" ? searching(movies) : ranking));

    expect(lackWith({ name: "year", type: "integer", isList: false })).toBeUndefined();
    expect(lackWith({ name: "years", type: "integer", isList: false })).toBe(
      'stages[2].filter: model movies: Items of this model have no attribute "year"; did you mean "years"?',
    );
    expect(lackWith({ name: "year", type: "string", isList: false })).toMatch(
      /^stages\[2\]\.filter: model movies: Attribute "year" cannot be compared with 1990/,
    );
    expect(plain).toBe(
      "stages[2].filter: model movies brings no attributes of its items; an assets.extra/items.parquet " +
        "or items.jsonl beside it would",
    );
  });

  test("with a stage that diversifies lacks attributes, or ones of single values", () => {
    const stagesFor = (by: "at-most" | "round-robin"): readonly PipelineStage[] => [
      retrieve,
      { kind: "diversify", by, attribute: "genres", count: 2 },
    ];
    const attributes: readonly AttributeSpec[] = [{ name: "genres", type: "string", isList: true }];
    const lackWith = (by: "at-most" | "round-robin", specs = attributes): string | undefined =>
      lackOf(modelOf({ user_id: "string" }, {}, stagesFor(by)), () => searching(movies, specs));

    expect(lackWith("at-most")).toBeUndefined();
    expect(lackWith("round-robin")).toBe(
      'stages[1].diversify: model movies: Attribute "genres" is a list; items in turn need one value each',
    );
    expect(lackWith("at-most", [])).toMatch(/no attribute "genres"/);
  });

  test("over items that a dense part ranks has their attributes, but no vectors to compare", () => {
    const year: AttributeSpec = { name: "year", type: "integer", isList: false };
    const member = uncut(movies, [year]);
    const other = searching(movies, [year]);
    const lackWith = (...stages: readonly PipelineStage[]): string | undefined =>
      lackOf(modelOf({ user_id: "string" }, {}, stages), (name) =>
        name === "movies" ? member : other,
      );
    const filter: PipelineStage = { kind: "filter", filter: '["gte","yaer",[1990]]' };
    const mmr = (of?: string): PipelineStage => {
      return { kind: "diversify", by: "mmr", balance: 0.5, count: 2, ...(of && { of }) };
    };
    const named = [
      { ...retrieve, as: "own" },
      { ...retrieve, model: "trending", as: "popular" },
    ];

    expect(lackWith(retrieve, { ...filter, filter: '["gte","year",[1990]]' })).toBeUndefined();
    expect(lackWith(retrieve, filter)).toBe(
      'stages[1].filter: model movies: Items of this model have no attribute "yaer"; did you mean "year"?',
    );
    expect(
      lackWith(retrieve, { kind: "diversify", by: "round-robin", attribute: "year" }),
    ).toBeUndefined();
    expect(lackWith(retrieve, mmr())).toBe(
      "stages[1].diversify: model movies ranks its items within a dense part, so there are no vectors " +
        "to compare; items can be diversified by an attribute",
    );
    expect(lackWith(...named, mmr("popular"))).toBeUndefined();
    expect(lackWith(...named, mmr("own"))).toMatch(/^stages\[2\]\.diversify: model movies ranks/);
  });

  test("that tells unknown users lacks a model that looks them up, and one whose items can be listed", () => {
    const keys = { kind: "vocabulary", keyDtype: "string" };
    const users = { kind: "keyed", name: "users", keys } as unknown as TableSpec;
    const lookup = { kind: "lookup", table: 0, node: "users", keys: 0, output: 7 } as const;
    const knowing = (steps: readonly Step[], ids = "string" as Dtype): ModelProgram => {
      const model = modelOf({ user: "string" }, { output_1: "float32", output_2: ids });
      const [own] = model.signatures;
      const outputs = own!.outputs.map(({ name, dtype }, at) => {
        return { name, dtype, shape: [-1], value: 20 + at, graphTensor: "" };
      });
      return { ...model, tables: [users], signatures: [{ ...own!, outputs, steps }] };
    };
    const search = { kind: "topK", table: 1, ids: 21 } as unknown as TopKStep;
    const lackWith = (answer: UnknownAnswer, member: ModelProgram, other?: ModelProgram) => {
      const unknown: PipelineStage = { kind: "unknown", input: "user_id", answer };
      const stages = [retrieve, unknown];
      const telling = modelOf({ user_id: "string" }, { output_2: "string" }, stages);
      return lackOf(telling, (name) => {
        return name === "movies" ? member : (other ?? { missing: "nobody has it" });
      });
    };
    const list: UnknownAnswer = { kind: "list", ids: ["a"] };
    const pipelineAnswer: UnknownAnswer = { kind: "pipeline", model: "popular" };
    const popular = (inputs: Types, items: Dtype, stages: readonly PipelineStage[] = [retrieve]) =>
      modelOf(inputs, { output_2: items }, stages);
    const at = "stages[1].unknown: model";

    expect(lackWith({ kind: "oov" }, knowing([lookup]))).toBeUndefined();
    expect(lackWith(list, knowing([lookup, search]))).toBeUndefined();
    expect(lackWith({ kind: "error" }, knowing([search]))).toBe(
      `${at} movies looks its input "user" up in no vocabulary, so it has no unknown users`,
    );
    expect(lackWith(list, knowing([lookup]))).toBe(
      `${at} movies cannot give a list: it does not answer the items of one search as they were found`,
    );
    expect(lackWith(list, knowing([lookup, search], "int64"))).toBe(
      'stages[0].retrieve: model movies answers ids of int64, the pipeline says string; say "items: int64"',
    );
    const fallbackLack = (other?: ModelProgram) =>
      lackWith(pipelineAnswer, knowing([lookup]), other);
    expect(fallbackLack(popular({ user_id: "string" }, "string"))).toBeUndefined();
    expect(fallbackLack()).toBe(`${at} popular cannot answer: nobody has it`);
    expect(fallbackLack(knowing([]))).toBe(`${at} popular is no pipeline`);
    expect(fallbackLack(popular({ user_id: "int64" }, "string"))).toBe(
      `${at} popular takes an input "user_id" of int64, which this pipeline does not have`,
    );
    expect(fallbackLack(popular({ user_id: "string" }, "int64"))).toBe(
      `${at} popular answers ids of int64, not string`,
    );
    const further: PipelineStage = { kind: "unknown", input: "user_id", answer: pipelineAnswer };
    expect(fallbackLack(popular({ user_id: "string" }, "string", [retrieve, further]))).toBe(
      `${at} popular has its own unknown users answered by a pipeline; one after the other is enough`,
    );
  });

  test("that finds items like an item lacks a model that answers those of one search, by ids of the input's type", () => {
    const { inputs: _, ...rest } = retrieve;
    const alike: RetrieveStage = { ...rest, inputs: [], like: "user_id" };
    const lackWith = (model: ModelProgram, dtype: Dtype = "string") =>
      lackOf(modelOf({ user_id: dtype }, {}, [alike]), () => model);
    const answers = (step: Partial<TopKStep>, ids: Dtype = "string"): ModelProgram => {
      const { signatures, ...model } = searching(modelOf({ user: "string" }, {}));
      const outputs = [
        { name: "output_1", dtype: "float32" as const, shape: [-1], value: 1, graphTensor: "" },
        { name: "output_2", dtype: ids, shape: [-1], value: 2, graphTensor: "" },
      ];
      const steps = [{ ...signatures[0]!.steps[0]!, ...step } as TopKStep];
      return { ...model, signatures: [{ ...signatures[0]!, steps, outputs }] };
    };

    expect(lackWith(answers({ ids: 2 }))).toBeUndefined();
    expect(lackWith(answers({ rows: 2 }, "int32"), "int64")).toBeUndefined();
    expect(lackWith(answers({ ids: 2 }, "int64"))).toBe(
      'stages[0].retrieve: model movies answers ids of int64, input "user_id" is string',
    );
    const apart = modelOf({ user_id: "string", other: "int64" }, {}, [
      { ...alike, unlike: "other" },
    ]);
    expect(lackOf(apart, () => answers({ ids: 2 }))).toBe(
      'stages[0].retrieve: model movies answers ids of string, input "other" is int64',
    );
    expect(lackWith(answers({ ids: 7 }))).toBe(
      "stages[0].retrieve: model movies cannot find items like another: it does not answer the items of one search as they were found",
    );
  });

  test("that merges lacks retrievals whose ids are of one type", () => {
    const trending = modelOf({ user: "string" }, { output_1: "float32", output_2: "int64" });
    const stages = [retrieve, { ...retrieve, model: "trending" }];
    const merged = modelOf({ user_id: "string" }, {}, stages);

    expect(lackOf(merged, (name) => (name === "movies" ? movies : trending))).toBe(
      "stages[1].retrieve: model trending answers ids of int64, the retrieval before it of string",
    );
  });
});
