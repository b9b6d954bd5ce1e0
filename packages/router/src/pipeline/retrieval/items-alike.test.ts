// Items like an item: a model of two dimensions, searched in plain code, is asked for the vectors first and then by them.

import { StringColumn, VECTOR_ATTRIBUTE, fingerprint, stringTensor, tensor } from "@winnow/core";
import type { ModelProgram, RetrieveStage, SignatureTensor, Tensor } from "@winnow/core";
import { cellOf } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../../test/doubles/manual-clock.ts";
import type { Prediction, PredictRequest } from "../../predictor.ts";
import { RequestContext } from "../../request-context.ts";
import type { PipelineRun } from "../pipeline-run.ts";
import { runPipeline } from "../pipeline-execution.ts";
import { PIPELINE_BOUNDS } from "../fixtures/pipeline-bounds.ts";
import { search } from "../fixtures/search-step.ts";

/** Rows by id; the last value of each is a bias, which is no part of the vector. `twin` stands in two rows. */
const ITEMS: readonly (readonly [string, readonly [number, number, number]])[] = [
  ["east", [1, 0, 9]],
  ["north-east", [0.7, 0.7, 9]],
  ["north", [0, 1, 9]],
  ["far east", [2, 0.1, 9]],
  ["west", [-1, 0, 9]],
  ["twin", [0, -1, 9]],
  ["twin", [0, -2, 9]],
];

const spec = (name: string, dtype: Tensor["dtype"], value = 0): SignatureTensor => {
  return { name, dtype, shape: [-1], value, graphTensor: "" };
};
const shape = { rows: ITEMS.length, dim: 3, partitions: 1, sources: [] };
const program: ModelProgram = {
  fingerprint: fingerprint("f"),
  tables: [{ kind: "candidate", name: "items", ...shape, idDtype: "string", added: 1 }],
  vocabularies: [],
  denseModels: [],
  signatures: [
    {
      name: "serving_default",
      methodName: "",
      constants: [],
      steps: [search],
      inputs: [spec("user_id", "string")],
      outputs: [spec("s", "float32", 1), spec("i", "string", 2)],
    },
  ],
};

const alike: RetrieveStage = {
  kind: "retrieve",
  model: "movies",
  signature: "serving_default",
  k: 3,
  inputs: [],
  like: "item",
  scores: "s",
  ids: "i",
};

interface Words {
  /** Of each instance, an item or a list of them. */
  readonly items: readonly (string | readonly string[])[];
  /** Of each instance, a list of items to be unlike. */
  readonly others?: readonly (readonly string[])[];
  readonly more?: Partial<PredictRequest>;
  readonly bounds?: Partial<PipelineRun>;
  readonly coverages?: readonly number[];
}

async function answerOf({ items, others, more = {}, bounds = {}, coverages = [] }: Words) {
  const asked: PredictRequest[] = [];
  const clock = new ManualClock();
  const context = new RequestContext(clock, { timeoutMs: 1000 });
  const lengths = items.flatMap((each) => (typeof each === "string" ? [] : [each.length]));
  const shapeOfItems = [items.length, ...lengths.slice(0, 1)];
  const { coverage, outputs } = await runPipeline({
    pipeline: {
      stages: [others === undefined ? alike : { ...alike, unlike: "other" }],
      outputs: { scores: "s", ids: "i" },
    },
    request: {
      signature: { ...program.signatures[0]!, steps: [], inputs: [spec("item", "string")] },
      inputs: new Map([
        ["item", stringTensor(items.flat(), shapeOfItems)],
        ...(others === undefined
          ? []
          : [["other", stringTensor(others.flat(), [others.length, others[0]!.length])] as const]),
      ]),
      context,
      ...more,
    },
    pinned: new Map([
      ["movies", { model: "movies", version: 3, program, release: () => undefined }],
    ]),
    clock,
    ...PIPELINE_BOUNDS,
    ...bounds,
    ask: (_, request) => {
      asked.push(request);
      return Promise.resolve({ ...found(request), coverage: coverages[asked.length - 1] ?? 1 });
    },
  }).finally(() => context.finish());
  return { coverage, asked, lists: listsOf(outputs) };
}

const textsOf = ({ data }: Tensor): readonly string[] => {
  if (data instanceof StringColumn) return data.toText();
  throw new Error("no texts");
};

/** What the model finds by vectors, best first. */
function found({ inputs, include = [], exclude = [], k, attributes }: PredictRequest): Prediction {
  const vectors = inputs.get("vectors")!;
  const [instances = 0, dim] = vectors.shape;
  expect(dim).toBe(3);
  const listOf = (lists: readonly Tensor[], instance: number): readonly string[] | undefined => {
    const list = lists[lists.length > 1 ? instance : 0];
    return list && textsOf(list);
  };
  const lists = Array.from({ length: instances }, (_, instance) => {
    const query = Array.from((vectors.data as Float32Array).slice(3 * instance, 3 * instance + 3));
    return ITEMS.map(([id, row], at) => {
      return { id, at, score: row.reduce((sum, value, axis) => sum + value * query[axis]!, 0) };
    })
      .filter(({ id }) => listOf(include, instance)?.includes(id) ?? true)
      .filter(({ id }) => listOf(exclude, instance)?.includes(id) !== true)
      .toSorted((a, b) => b.score - a.score || a.at - b.at)
      .slice(0, k ?? 3);
  });
  const width = Math.max(0, ...lists.map(({ length }) => length));
  const cells = lists.flatMap((list) => Array.from({ length: width }, (_, at) => list[at]));
  const matrix = [instances, width];
  const rowLengths = Uint32Array.from(lists, ({ length }) => length);
  const scores = Float32Array.from(cells, (cell) => cell?.score ?? 0);
  const vectorAt = (at: number): Uint8Array =>
    new Uint8Array(new Float32Array(ITEMS[at]![1].slice(0, 2)).buffer);
  const described = cells.map((cell) =>
    cell === undefined ? new Uint8Array() : cellOf(Buffer.from("{}"), vectorAt(cell.at)),
  );
  const ids = stringTensor(
    cells.map((cell) => cell?.id ?? ""),
    matrix,
  );
  const told: Tensor = { ...ids, data: StringColumn.fromBytes(described), rowLengths };
  return {
    version: { model: "movies", version: 3, fingerprint: fingerprint("f") },
    outputs: new Map<string, Tensor>([
      ["s", { ...tensor("float32", matrix, scores), rowLengths }],
      ["i", { ...ids, rowLengths }],
    ]),
    coverage: 1,
    ...(attributes?.includes(VECTOR_ATTRIBUTE) === true && { attributes: told }),
  };
}

function listsOf(outputs: ReadonlyMap<string, Tensor>): readonly (readonly string[])[] {
  const ids = outputs.get("i")!;
  const [instances = 0, width = 0] = ids.shape;
  const texts = textsOf(ids);
  return Array.from({ length: instances }, (_, instance) =>
    texts.slice(instance * width, instance * width + (ids.rowLengths?.[instance] ?? width)),
  );
}

describe("items like an item", () => {
  test("are those with the largest products with its vector, without itself and without what is added", async () => {
    const { asked, lists } = await answerOf({ items: ["east", "north", "twin"] });

    expect(lists).toEqual([
      ["far east", "north-east", "north"],
      ["north-east", "far east", "east"],
      ["east", "west", "far east"],
    ]);
    expect(asked.map(({ k }) => k)).toEqual([1, 3]);
    expect(asked[1]!.inputs.get("vectors")!.data).toEqual(
      new Float32Array([1, 0, 0, 0, 1, 0, 0, -1, 0]),
    );
  });

  test("of an item that the model does not have are none, and change no other instance's", async () => {
    const { asked, lists } = await answerOf({ items: ["nothing", "east", "neither"] });

    expect(lists).toEqual([[], ["far east", "north-east", "north"], []]);
    // Not zeros: a search in which all rows are equal takes several times as long.
    expect(asked[1]!.inputs.get("vectors")!.data).toEqual(
      new Float32Array([1, 1, 1, 1, 0, 0, 1, 1, 1]),
    );
  });

  test("of several items are those with the largest products with the mean of those that the model has", async () => {
    const { asked, lists } = await answerOf({
      items: [
        ["east", "nothing", "north"],
        ["neither", "nothing", "none"],
        ["west", "west", "north"],
      ],
    });

    expect(asked[1]!.inputs.get("vectors")!.data).toEqual(
      new Float32Array([0.5, 0.5, 0, 1, 1, 1, -2 / 3, 1 / 3, 0]),
    );
    expect(lists).toEqual([["far east", "north-east", "west"], [], ["north-east", "twin", "east"]]);
  });

  test("and unlike others are those by twice the mean less the mean of the others that the model has, and none of them", async () => {
    const items = [
      ["east", "nothing"],
      ["north", "north"],
      ["neither", "nothing"],
    ];
    const others = [["north"], ["nothing"], ["east"]];

    const { asked, lists } = await answerOf({ items, others });
    const cut = await answerOf({ items, others, bounds: { describedValuesMax: 1 } });

    expect(asked[1]!.inputs.get("vectors")!.data).toEqual(
      new Float32Array([2, -1, 0, 0, 1, 0, 1, 1, 1]),
    );
    expect(lists).toEqual([["far east", "twin", "twin"], ["north-east", "far east", "east"], []]);
    expect(cut.lists).toEqual(lists);
  });

  test("of several items are the same however few are looked for at once", async () => {
    const items = [
      ["east", "north"],
      ["west", "nothing"],
      ["twin", "east"],
    ];

    const cut = await answerOf({ items, bounds: { describedValuesMax: 1 } });

    expect(cut.lists).toEqual((await answerOf({ items })).lists);
    expect(cut.asked.length).toBeGreaterThan(6);
  });

  test("leave out what the request excludes, in lists for all instances and for each", async () => {
    const items = ["east", "north"];
    const all = [stringTensor(["north-east"])];
    const each = [stringTensor(["far east", "north"]), stringTensor([])];

    const shared = await answerOf({ items, more: { exclude: all } });
    const own = await answerOf({ items, more: { exclude: each } });

    expect(shared.lists).toEqual([
      ["far east", "north", "twin"],
      ["far east", "east", "west"],
    ]);
    expect(own.lists).toEqual([
      ["north-east", "twin", "twin"],
      ["north-east", "far east", "east"],
    ]);
  });

  test("are asked for in questions that describe and list no more than they may", async () => {
    const items = ["east", "north", "west", "nothing", "twin"];
    const whole = await answerOf({ items });

    for (const bounds of [
      { describedValuesMax: 2 },
      { limits: { excludedIdsMax: 3, excludedBytesMax: 9999 } },
      { limits: { excludedIdsMax: 99, excludedBytesMax: 20 } },
    ]) {
      const cut = await answerOf({ items, bounds });

      expect(cut.lists).toEqual(whole.lists);
      expect(cut.asked.length).toBeGreaterThan(whole.asked.length);
    }
  });

  test("are refused where there is no room to exclude the item itself", async () => {
    const exclude = [stringTensor(["a", "b"])];
    const bounds = { limits: { excludedIdsMax: 2, excludedBytesMax: 9999 } };

    const refused = answerOf({ items: ["east"], more: { exclude }, bounds });

    await expect(refused).rejects.toThrow(
      "each instance may exclude 2 ids of 9999 bytes in all; exclude less",
    );
  });

  test("are covered as the lesser of both questions is", async () => {
    const items = ["east"];

    expect((await answerOf({ items, coverages: [0.5, 0.75] })).coverage).toBe(0.5);
    expect((await answerOf({ items, coverages: [1, 0.75] })).coverage).toBe(0.75);
  });
});
