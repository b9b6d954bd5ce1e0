// Searches ranked by functions of scores, against scoring and ordering every row: over a small table, where lists
// hold all rows, and over one in which more rows share a value than any list holds.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Filter } from "../../attributes/filter.ts";
import { ROW_COLUMN } from "../../attributes/filter.ts";
import { stringTensor } from "../../tensor/tensor.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type {
  CandidateTable,
  ScoreFunction,
  ScoreOperationName,
  SignatureProgram,
  TopKStep,
} from "../program.ts";
import { runProgram } from "../program-run.ts";
import { SCORE_OPERATIONS, boundFunctions, isSoftmax, scoreValues } from "./score-functions.ts";
import type { TopKAnswer, TopKQuestion } from "../step-contract.ts";
import { tensorOf } from "../operations/tensor-memory.ts";

interface Scored {
  readonly row: number;
  readonly score: number;
}

interface Asked {
  /** Score of each row for a query factor of 1. */
  readonly values: readonly number[];
  readonly factors: readonly number[];
  readonly k: number;
  readonly functions: readonly ScoreFunction[];
  /** Operands of functions, by position; one for all queries, or one for each. */
  readonly operands: readonly (readonly number[])[];
  readonly masks: readonly AskedMask[];
  /** A row that each query excludes; -1 for none. */
  readonly excluded: readonly number[];
}

/** A mask that keeps rows whose numbers are multiples of `of`. */
interface AskedMask {
  readonly of: 2 | 3;
  readonly score: number;
  /** What is added to scores, or what they are multiplied by, in place of `score`; of rows that are kept as well. */
  readonly penalty?: number | undefined;
  readonly bonus?: number | undefined;
  readonly isFactor?: boolean | undefined;
  /** Whether it is only for rows that the mask before it keeps. */
  readonly isElse?: boolean | undefined;
  readonly functionsBefore: number;
}

const FIRST_OPERAND = 10;
const FIRST_CHANGE = 20;

function maskOf(
  { of, penalty, bonus, ...mask }: AskedMask,
  at: number,
): NonNullable<TopKStep["masks"]>[number] {
  return {
    ...mask,
    keeps: { kind: "test", column: `rest of ${of}`, is: "in", values: 1 },
    ...(penalty !== undefined && { penalty: FIRST_CHANGE + 2 * at }),
    ...(penalty !== undefined && bonus !== undefined && { bonus: FIRST_CHANGE + 2 * at + 1 }),
  };
}

/** The values of penalties and bonuses. */
const changesOf = ({ masks }: Asked): SignatureProgram["constants"] =>
  masks.flatMap(({ penalty, bonus }, at) =>
    [penalty ?? 0, bonus ?? 0].map((number, part) => ({
      value: FIRST_CHANGE + 2 * at + part,
      tensor: tensorOf("float32", [], Float32Array.of(number)),
    })),
  );

function signatureOf({ k, functions, masks }: Asked): SignatureProgram {
  const shape = undefined;
  const even: Tensor = tensorOf("int32", [], Int32Array.of(0));
  return {
    name: "serving_default",
    methodName: "tensorflow/serving/predict",
    inputs: [{ name: "query", graphTensor: "query:0", value: 0, dtype: "float32", shape }],
    outputs: [
      { name: "scores", graphTensor: "s:0", value: 2, dtype: "float32", shape },
      { name: "rows", graphTensor: "r:0", value: 3, dtype: "int32", shape },
      { name: "ids", graphTensor: "i:0", value: 4, dtype: "string", shape },
    ],
    constants: [{ value: 1, tensor: even }],
    steps: [
      {
        kind: "topK",
        table: 0,
        node: "top_k",
        query: 0,
        k,
        capped: false,
        functions,
        ...(masks.length > 0 && { masks: masks.map(maskOf) }),
        scores: 2,
        rows: 3,
        ids: 4,
      },
    ],
  };
}

function admits(filter: Filter | undefined, row: number): boolean {
  if (filter === undefined) return true;
  if (filter.kind === "not") return !admits(filter.of, row);
  if (filter.kind === "test") {
    const [value] = filter.values;
    return filter.attribute === ROW_COLUMN
      ? row < Number(value)
      : row % Number(filter.attribute.at(-1)) === value;
  }
  return filter.of.every((each) => admits(each, row));
}

const inOrder = (list: readonly Scored[], k: number): readonly Scored[] =>
  list.toSorted((a, b) => b.score - a.score || a.row - b.row).slice(0, k);

/** Brute force, and how many searches it was. */
class Searches {
  count = 0;
  readonly #asked: Asked;

  constructor(asked: Asked) {
    this.#asked = asked;
  }

  answer({ query, k, admits: filters, chosen }: TopKQuestion): TopKAnswer {
    this.count += 1;
    const { values, excluded } = this.#asked;
    const lists = Array.from({ length: query.shape[0]! }, (_, at) => {
      const factor = (query.data as Float32Array)[at]!;
      const filter = filters?.[filters.length > 1 ? at : 0];
      const scored = values.map((value, row) => ({ row, score: Math.fround(factor * value) + 0 }));
      const without = excluded[chosen?.[at] ?? at];
      return inOrder(
        scored.filter(({ row }) => row !== without && admits(filter, row)),
        k,
      );
    });
    const width = Math.max(0, ...lists.map(({ length }) => length));
    const shape = [lists.length, width];
    const padded = lists.flatMap((list) =>
      Array.from({ length: width }, (_, rank) => list[rank] ?? { row: 0, score: 0 }),
    );
    const rows = padded.map(({ row }) => row);
    const scores = padded.map(({ score }) => score);
    return {
      scores: tensorOf("float32", shape, Float32Array.from(scores)),
      rows: tensorOf("int32", shape, Int32Array.from(rows)),
      ids: stringTensor(
        rows.map((row) => `item ${row}`),
        shape,
      ),
      counts: Uint32Array.from(lists, ({ length }) => length),
    };
  }
}

const operandTensors = ({ operands }: Asked): readonly Tensor[] =>
  operands.map((numbers) => tensorOf("float32", [numbers.length, 1], Float32Array.from(numbers)));

async function answerOf(asked: Asked): Promise<{
  readonly lists: readonly (readonly (Scored & { readonly id: string })[])[];
  readonly searches: number;
}> {
  const searches = new Searches(asked);
  const program = signatureOf(asked);
  const constants = operandTensors(asked).map((tensor, at) => ({
    value: FIRST_OPERAND + at,
    tensor,
  }));
  const refused = (): never => {
    throw new RangeError("nothing else is asked");
  };
  const table: CandidateTable = {
    kind: "candidate",
    name: "items",
    rows: asked.values.length,
    dim: 1,
    partitions: 1,
    sources: [],
    idDtype: "string",
    masks: [2, 3].map((of) => ({ name: `rest of ${of}`, type: "integer", isList: false })),
  };
  const query = tensorOf("float32", [asked.factors.length, 1], Float32Array.from(asked.factors));
  const outputs = await runProgram(
    { ...program, constants: [...program.constants, ...constants, ...changesOf(asked)] },
    { inputs: new Map([["query", query]]) },
    {
      tables: [table],
      vocabularies: [],
      lookup: refused,
      dense: refused,
      sums: refused,
      topK: (_, question) => Promise.resolve().then(() => searches.answer(question)),
    },
  );
  const [scores, rows, ids] = ["scores", "rows", "ids"].map((name) => outputs.get(name)!);
  const width = scores!.shape[1]!;
  const lists = asked.factors.map((_, at) =>
    Array.from({ length: scores!.rowLengths?.[at] ?? width }, (_each, rank) => {
      const place = at * width + rank;
      return {
        score: (scores!.data as Float32Array)[place]!,
        row: (rows!.data as Int32Array)[place]!,
        id: ids!.dtype === "string" ? ids.data.textAt(place) : "",
      };
    }),
  );
  return { lists, searches: searches.count };
}

/** A score behind some masks, of which those that are else ask no more of rows that one before left out. */
function behindMasks(score: number, row: number, masks: readonly AskedMask[]): number {
  let isLeft = false;
  let value = score;
  for (const mask of masks) {
    if (isLeft && mask.isElse === true) continue;
    isLeft = row % mask.of !== 0;
    value = masked(value, row, mask);
  }
  return value;
}

function masked(score: number, row: number, mask: AskedMask): number {
  const { of, penalty, bonus, isFactor } = mask;
  const isKept = row % of === 0;
  if (penalty === undefined) return isKept ? score : mask.score;
  const change = isKept ? bonus : penalty;
  if (change === undefined) return score;
  return Math.fround(isFactor === true ? score * change : score + change);
}

/** Every row's value, in order. */
function expectedOf(asked: Asked): readonly (readonly (Scored & { readonly id: string })[])[] {
  const { values, factors, k, functions, masks, excluded } = asked;
  const tensors = operandTensors(asked);
  const made = (some: readonly ScoreFunction[], query: number): ((score: number) => number) =>
    scoreValues(boundFunctions(some, (value) => tensors[value - FIRST_OPERAND]!, factors.length))(
      query,
    );
  return factors.map((factor, query) => {
    const scored = values.flatMap((value, row): Scored[] => {
      if (row === excluded[query]) return [];
      let score = Math.fround(factor * value) + 0;
      for (let at = 0; at <= functions.length; at += 1) {
        const own = masks.filter(({ functionsBefore }) => functionsBefore === at);
        score = behindMasks(score, row, own);
        score = made(functions.slice(at, at + 1), query)(score);
      }
      return [{ row, score }];
    });
    return inOrder(scored, k).map((item) => Object.assign({ id: `item ${item.row}` }, item));
  });
}

const BINARY = [
  "Add",
  "Div",
  "KeepAbove",
  "KeepFrom",
  "LeakyRelu",
  "Maximum",
  "Minimum",
  "Mul",
  "Pow",
  "Sub",
] as const;

/** Functions that are defined everywhere and have operands that keep the order. */
const functionOf = (
  queries: number,
  position: number,
): fc.Arbitrary<{ readonly function: ScoreFunction; readonly operands: readonly number[] }> => {
  const unary = fc
    .constantFrom<ScoreOperationName>("Sigmoid", "Tanh", "Round", "Floor", "Ceil", "Elu")
    .map((op) => ({ function: { op }, operands: [1] }));
  const binary = fc
    .constantFrom<ScoreOperationName>("Maximum", "Minimum", "Add", "Sub", "KeepAbove", "KeepFrom")
    .chain((op) =>
      fc
        .array(fc.constantFrom(-3, 0, 2, 1e9), { minLength: queries, maxLength: queries })
        .chain((each) => fc.constantFrom(each, [2]))
        .map((operands) => ({ function: { op, operand: FIRST_OPERAND + position }, operands })),
    );
  const scaled = fc.constantFrom<ScoreOperationName>("Mul", "Div").map((op) => {
    return { function: { op, operand: FIRST_OPERAND + position }, operands: [0.25] };
  });
  const cubed = fc.constant({
    function: { op: "Pow", operand: FIRST_OPERAND + position } as const,
    operands: [3],
  });
  return fc.oneof(unary, binary, scaled, cubed);
};

const askedMask = (functions: number): fc.Arbitrary<AskedMask> => {
  const number = fc.constantFrom(0.5, 1, 4, 30);
  const shared = {
    of: fc.constantFrom(2 as const, 3 as const),
    functionsBefore: fc.integer({ min: 0, max: functions }),
  };
  return fc.oneof(
    fc.record({ ...shared, score: fc.constantFrom(-Infinity, -1, 0, 1, 30) }),
    fc.record({
      ...shared,
      score: fc.constant(0),
      penalty: number,
      bonus: fc.option(number, { nil: undefined }),
      isFactor: fc.boolean(),
      isElse: fc.boolean(),
    }),
  );
};

/** Masks of which those are else that may be. */
function withElse(masks: readonly AskedMask[]): readonly AskedMask[] {
  return masks.map(({ isElse, ...mask }, at) => {
    const isBehind = masks[at - 1]?.functionsBefore === mask.functionsBefore;
    return isElse === true && isBehind ? { ...mask, isElse } : mask;
  });
}

const askedOf = (rows: number): fc.Arbitrary<Asked> =>
  fc
    .record({
      queries: fc.integer({ min: 1, max: 3 }),
      values: fc.array(fc.integer({ min: -40, max: 40 }), { minLength: rows, maxLength: rows }),
      k: fc.integer({ min: 0, max: Math.min(rows, 30) }),
      count: fc.integer({ min: 1, max: 3 }),
    })
    .chain(({ queries, values, k, count }) =>
      fc
        .record({
          factors: fc.array(fc.integer({ min: -2, max: 2 }), {
            minLength: queries,
            maxLength: queries,
          }),
          made: fc.tuple(...Array.from({ length: count }, (_, at) => functionOf(queries, at))),
          excluded: fc.array(fc.integer({ min: -1, max: 20 }), {
            minLength: queries,
            maxLength: queries,
          }),
          masks: fc.array(askedMask(count), { maxLength: 4 }),
        })
        .map(({ factors, made, excluded, masks }): Asked => ({
          values,
          k,
          factors,
          excluded,
          functions: made.map((each) => each.function),
          operands: made.map(({ operands }) => operands),
          masks: withElse(masks.toSorted((a, b) => a.functionsBefore - b.functionsBefore)),
        })),
    );

const plain = { operands: [], masks: [], excluded: [-1] };

describe("a search that is ranked by functions of scores", () => {
  test.each([
    [25, 200],
    [3000, 25],
  ])(
    "answers what scoring all of %i rows answers, equal values by their rows",
    async (rows, runs) => {
      await fc.assert(
        fc.asyncProperty(askedOf(rows), async (asked) => {
          expect((await answerOf(asked)).lists).toEqual(expectedOf(asked));
        }),
        { numRuns: runs },
      );
    },
  );

  test("is one search where the value of the last item is not shared, two where a few rows share it", async () => {
    const values = Array.from({ length: 5000 }, (_, row) => row / 100);
    const of = { ...plain, values, factors: [1], k: 3 };
    const apart = await answerOf({ ...of, functions: [{ op: "Tanh" }], factors: [-1] });
    const shared = await answerOf({
      ...of,
      values: values.map((value) => value - 45),
      functions: [{ op: "Round" }],
    });

    expect(apart.searches).toBe(1);
    expect(shared.searches).toBe(2);
    expect(shared.lists[0]!.map(({ row }) => row)).toEqual([4951, 4952, 4953]);
  });

  test("asks which rows with a penalty come first only where a list has room for them", async () => {
    const values = Array.from({ length: 5000 }, (_, row) => row / 100);
    const penalty = { of: 3, score: 0, penalty: -1e12, functionsBefore: 0 } as const;
    const of = { ...plain, values, factors: [1], functions: [], masks: [penalty] };
    const many = await answerOf({ ...of, k: 3 });
    const few = await answerOf({ ...of, k: 1670 });

    expect(many.searches).toBe(2);
    expect(many.lists[0]!.map(({ row }) => row)).toEqual([4998, 4995, 4992]);
    expect(few.searches).toBeGreaterThan(2);
    expect(few.lists[0]!.slice(1666).map(({ row }) => row)).toEqual([0, 1, 2, 4]);
  });

  test("that has one value for a hundred thousand rows finds the first ones in a few searches", async () => {
    const values = Array.from(
      { length: 100_000 },
      (_, row) => 50 + ((row * 7919) % 100_000) / 1000,
    );
    const { lists, searches } = await answerOf({
      ...plain,
      values,
      factors: [1],
      k: 3,
      functions: [{ op: "Sigmoid" }],
    });

    expect(lists[0]!.map(({ row, score }) => [row, score])).toEqual([
      [0, 1],
      [1, 1],
      [2, 1],
    ]);
    expect(searches).toBeLessThan(12);
  });

  test("needs an operand for each query, or one for all", async () => {
    const asked = { ...plain, values: [1, 2], factors: [1, 1, 1], excluded: [-1, -1, -1], k: 1 };
    const functions: readonly ScoreFunction[] = [{ op: "Add", operand: FIRST_OPERAND }];

    await expect(answerOf({ ...asked, functions, operands: [[1, 2]] })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("Incompatible shapes: [3] vs. float32 [2,1]") as string,
    });
  });
});

describe("functions of scores", () => {
  const operandOf = (op: ScoreOperationName): number | undefined =>
    (BINARY as readonly string[]).includes(op) ? FIRST_OPERAND : undefined;
  const valueOf = (op: ScoreOperationName): ((score: number) => number) =>
    scoreValues(
      boundFunctions(
        [{ op, operand: operandOf(op) }],
        () => tensorOf("float32", [], Float32Array.of(op === "Pow" ? 3 : 0.5)),
        1,
      ),
    )(0);
  const softmaxOf = (op: ScoreOperationName): ((score: number) => number) => {
    const sums = { best: Float32Array.of(1e30), sum: Float64Array.of(2.5) };
    return scoreValues([{ op }], sums)(0);
  };

  test.each(SCORE_OPERATIONS)("%s never puts a lower score before a higher one", (op) => {
    const value = (isSoftmax({ op }) ? softmaxOf : valueOf)(op);
    const isOfPositives = op === "Log" || op === "Sqrt" || op === "Log1p";
    const float = fc.float({
      noNaN: true,
      min: isOfPositives ? 0 : -Math.fround(1e30),
      max: Math.fround(1e30),
    });
    fc.assert(
      fc.property(float, float, (a, b) => {
        const [low, high] = [value(Math.min(a, b)), value(Math.max(a, b))];

        expect(low <= high).toBe(true);
        expect(Object.is(low, Math.fround(low) + 0)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  test.each([
    ["Sigmoid", 16.635532, 1],
    ["Sigmoid", 16.63, 1 - 2 ** -24],
    ["Sigmoid", -87.33656, 0],
    ["Sigmoid", 200, 1],
    ["Tanh", 7.90739, 1],
    ["Tanh", -7.90739, -1],
    ["Exp", -87.33656, 0],
    ["Exp", 88.72285, Infinity],
    ["Expm1", -17.4, -1],
    ["Elu", -17.4, -1],
    ["Selu", -17.4, -1.7580993175506592],
    ["Softplus", 14, 14],
    ["Softplus", -87.4, 0],
    ["Round", 2.5, 2],
    ["Round", -3.5, -4],
  ] as const)("%s of %d is %d, as TensorFlow has it", (op, score, wanted) => {
    expect(valueOf(op)(Math.fround(score))).toBe(wanted);
  });
});
