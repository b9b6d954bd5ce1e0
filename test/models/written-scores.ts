// Scores of recommenders that nobody has recorded, as small graphs, and what they must be by plain float64
// arithmetic on the same numbers.

import type { Tensor } from "@winnow/core";
import { GraphWriter } from "./graph-writer.ts";

const ITEMS = 37;
const DIM = 5;
/** Bytes of all items. */
export const ITEM_BYTES: number = ITEMS * DIM * 4;
/** Items of each answer. */
export const K = 6;

/** Numbers between -1 and 1 that differ, and are the same in every run. */
function numbers(count: number, seed: number): number[] {
  return Array.from({ length: count }, (_, at) => Math.fround(Math.sin(at * 12.9898 + seed * 7)));
}

const items = numbers(ITEMS * DIM, 1);
const bias = numbers(ITEMS, 2);
/** Ids of the items, by row. */
export const IDS: readonly string[] = Array.from({ length: ITEMS }, (_, row) => `item ${row}`);
const ids = IDS;
const queries = [1, 2, 3].map((seed) => numbers(DIM, seed + 10).map((value) => value * 4));
const products = queries.map((query) =>
  ids.map((_, row) => {
    return query.reduce((sum, value, at) => sum + value * items[row * DIM + at]!, 0);
  }),
);

interface Built {
  readonly graph: GraphWriter;
  readonly query: string;
  /** `[queries, items]`. */
  readonly scores: string;
  readonly bias: string;
}

/** Scores as a graph writes them, and as plain arithmetic does. */
export interface Shape {
  readonly name: string;
  /** Gives the scores that are ranked. */
  readonly build: (parts: Built) => string;
  /** Ranks the scores and gives the outputs; otherwise a top-k does. */
  readonly rank?: (graph: GraphWriter, scores: string, ids: string) => void;
  /** What they must be for a query, given its products. */
  readonly scored: (products: readonly number[], query: number) => readonly number[];
  /** Further inputs by name: a value for each query, or one. */
  readonly inputs?: Readonly<Record<string, Tensor>>;
  readonly functions?: readonly string[];
  /** How many tables are looked up; 0 unless it is told. */
  readonly lookups?: number;
  /** Whether it stays in a dense part. */
  readonly isDense?: true;
  /** Whether a dense part has all items beside the search, which is told. */
  readonly isReadWhole?: true;
}

const column = (...values: readonly number[]): Tensor => {
  return { dtype: "float32", shape: [values.length, 1], data: Float32Array.from(values) };
};
const scalar = (value: number): Tensor => {
  return { dtype: "float32", shape: [], data: Float32Array.of(value) };
};

const softmax = (scores: readonly number[]): number[] => {
  const best = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - best));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
};

const PLAIN_PRODUCT = { transpose_a: false, transpose_b: false } as const;

/** `scores[:, first:end]`. */
function sliced(
  graph: GraphWriter,
  scores: string,
  [first, end, dtype = "float32"]: readonly [
    first: number,
    end?: number,
    dtype?: "float32" | "int32",
  ],
): string {
  const at = (value: number): string => graph.constant([0, value], [2], "int32");
  const strides = graph.constant([1, 1], [2], "int32");
  const isOpen = end === undefined;
  return graph.op("StridedSlice", [scores, at(first), at(end ?? 0), strides], {
    T: { type: dtype },
    Index: { type: "int32" },
    begin_mask: 1,
    end_mask: isOpen ? 3 : 1,
    ellipsis_mask: 0,
    new_axis_mask: 0,
    shrink_axis_mask: 0,
  });
}

/** Σ item². */
function squareOf(row: number): number {
  return items.slice(row * DIM, (row + 1) * DIM).reduce((sum, value) => sum + value * value, 0);
}

/** Rows of so many values as columns. */
function transposed(values: readonly number[], width: number): number[] {
  const rows = values.length / width;
  return Array.from(values, (_, at) => values[(at % rows) * width + Math.floor(at / rows)]!);
}

/** A query and an item each: the best ones of the first query, one of them twice, and some of the last one. */
const LISTED: readonly (readonly [number, number])[] = [
  [0, bestOf(products[0]!)[1]!],
  [2, 36],
  [0, bestOf(products[0]!)[0]!],
  [0, bestOf(products[0]!)[1]!],
  [2, bestOf(products[2]!)[2]!],
];
const PAIRS: Tensor = {
  dtype: "int32",
  shape: [LISTED.length, 2],
  data: Int32Array.from(LISTED.flat()),
};
const COUNT: Tensor = { dtype: "int32", shape: [1], data: Int32Array.of(LISTED.length) };
const SCATTER = { Tindices: { type: "int32" } } as const;
const FILL = { index_type: { type: "int32" } } as const;

const pairs = (graph: GraphWriter): string => graph.input("pairs", "int32", [-1, 2]);
const count = (graph: GraphWriter): string => graph.input("count", "int32", [1]);

/** Scores with a number in the place of those that are listed. */
const without = (scores: readonly number[], query: number, score: number): number[] =>
  scores.map((own, row) => {
    return LISTED.some(([of, item]) => of === query && item === row) ? score : own;
  });

/** int8 values, and what they are divided by. */
const QUANTISED = {
  kernel: numbers(ITEMS * DIM, 5).map((value) => Math.round(value * 127)),
  scales: numbers(ITEMS, 6).map((value) => Math.fround(60 + 40 * value)),
};

const INT32 = { type: "int32" } as const;

/** `order[:, :k]` by StridedSlice, with the order that TensorFlow makes of a descending sort: a top-k of all. */
function firstOfAll(graph: GraphWriter, scores: string): readonly [scores: string, rows: string] {
  const shape = graph.op("Shape", [scores], { out_type: INT32 });
  const at = (value: number): string => graph.constant([value], [1], "int32");
  const all = graph.op("StridedSlice", [shape, at(-1), at(0), at(1)], {
    T: INT32,
    Index: INT32,
    begin_mask: 0,
    end_mask: 0,
    ellipsis_mask: 0,
    new_axis_mask: 0,
    shrink_axis_mask: 1,
  });
  const sorted = graph.op("TopKV2", [scores, all]);
  const first = (value: string, dtype: "float32" | "int32"): string =>
    sliced(graph, value, [0, K, dtype]);
  return [first(sorted, "float32"), first(`${sorted}:1`, "int32")];
}

/** The ids of rows, and scores, as the outputs. */
function answered(
  graph: GraphWriter,
  { scores, rows, of }: { readonly scores: string; readonly rows: string; readonly of: string },
): void {
  const types = { Tparams: { type: "string" }, Tindices: INT32, Taxis: INT32 } as const;
  const axis = graph.constant([0], [], "int32");
  const gathered = graph.op("GatherV2", [of, rows, axis], types);
  graph.output("scores", scores, { dtype: "float32", shape: [-1, K] });
  graph.output("ids", gathered, { dtype: "string", shape: [-1, K] });
}

const genre = ids.map((_, row) => row % 3);
const genres = (...values: readonly number[]) => {
  return { dtype: "int32", shape: [values.length, 1], data: Int32Array.from(values) } as const;
};
/** The genre of each query, all of which have items. */
const WANTED = genres(0, 2, 1);
/** The same, but that no item is of the second query's genre. */
const NO_GENRE = genres(0, 9, 1);

/** Whether each item is of the genre that a query wants. */
function isWanted({ graph }: Built): string {
  const input = graph.input("wanted", "int32", [-1, 1]);
  const stored = graph.constant(genre, [ITEMS], "int32");
  return graph.op("Equal", [stored, input], { T: { type: "int32" } });
}

/** Scores of items of a genre, and a number for all others. */
function ofGenre(parts: Built, scores: string, score: number): string {
  return parts.graph.op("SelectV2", [isWanted(parts), scores, parts.graph.constant([score], [])]);
}

/** Scores with something added to those of other genres. */
function withPenalty(parts: Built, penalty: number): string {
  const { graph, scores } = parts;
  const casts = { SrcT: { type: "bool" }, DstT: { type: "float32" } } as const;
  const flags = graph.op("Cast", [isWanted(parts)], casts);
  const others = graph.op("Sub", [graph.constant([1], []), flags]);
  return graph.op("AddV2", [scores, graph.op("Mul", [others, graph.constant([penalty], [])])]);
}

const masked = (scores: readonly number[], query: number, score: number): number[] =>
  scores.map((own, row) => (genre[row] === WANTED.data[query] ? own : score));

/** The same where no item is of the second query's genre. */
const maskedAll = (scores: readonly number[], query: number, score: number): number[] =>
  scores.map((own, row) => (genre[row] === NO_GENRE.data[query] ? own : score));

const penalised = (scores: readonly number[], query: number, penalty: number): number[] =>
  scores.map((own, row) => (genre[row] === NO_GENRE.data[query] ? own : own + penalty));

const plus = (scores: readonly number[]): number[] =>
  scores.map((score, row) => score + bias[row]!);

/** All of them. */
export const SHAPES: readonly Shape[] = [
  {
    name: "softmax",
    build: ({ graph, scores }) => graph.op("Softmax", [scores]),
    scored: softmax,
    functions: ["Softmax"],
  },
  {
    name: "softmax of logits with a bias, over a temperature",
    build: ({ graph, scores, bias: added }) => {
      const logits = graph.op("AddV2", [scores, added]);
      return graph.op("Softmax", [graph.op("RealDiv", [logits, graph.constant([0.25], [])])]);
    },
    scored: (scores) => softmax(plus(scores).map((score) => score / 0.25)),
    functions: ["Softmax"],
  },
  {
    name: "logarithm of a softmax, scaled",
    build: ({ graph, scores }) => {
      return graph.op("Mul", [graph.op("LogSoftmax", [scores]), graph.constant([3], [])]);
    },
    scored: (scores) => softmax(scores).map((power) => 3 * Math.log(power)),
    functions: ["LogSoftmax", "Mul"],
  },
  {
    name: "softmax of what a request weighs",
    build: ({ graph, scores }) => {
      const weight = graph.input("weight", "float32", [-1, 1]);
      return graph.op("Softmax", [graph.op("Mul", [scores, weight])]);
    },
    inputs: { weight: column(0.5, -2, 3) },
    scored: (scores, query) => softmax(scores.map((score) => score * [0.5, -2, 3][query]!)),
    functions: ["Softmax"],
  },
  {
    name: "softmax of scores that are far apart, which ranks many items of one value by row",
    build: ({ graph, scores }) => {
      return graph.op("Softmax", [graph.op("Mul", [scores, graph.constant([1000], [])])]);
    },
    scored: (scores) => {
      return softmax(scores.map((score) => score * 1000)).map((power) =>
        power < 2 ** -126 ? 0 : power,
      );
    },
    functions: ["Softmax"],
  },
  {
    name: "opposite of a softmax",
    build: ({ graph, scores }) => graph.op("Neg", [graph.op("Softmax", [scores])]),
    scored: (scores) => softmax(scores).map((power) => -power),
    functions: ["Mul", "Softmax", "Mul"],
  },
  {
    name: "softmax of capped logits",
    build: ({ graph, scores }) => {
      const cap = graph.constant([2.5], []);
      const capped = graph.op("Mul", [graph.op("Tanh", [graph.op("RealDiv", [scores, cap])]), cap]);
      return graph.op("Softmax", [capped]);
    },
    scored: (scores) => softmax(scores.map((score) => 2.5 * Math.tanh(score / 2.5))),
    functions: ["Tanh", "Mul", "Softmax"],
  },
  {
    name: "softmax of scores that a mask hides",
    build: (parts) => parts.graph.op("Softmax", [ofGenre(parts, parts.scores, -Infinity)]),
    inputs: { wanted: WANTED },
    scored: (scores, query) => softmax(masked(scores, query, -Infinity)),
    functions: ["Softmax"],
  },
  {
    name: "softmax of scores of which a mask lowers some, or all",
    build: (parts) => parts.graph.op("Softmax", [ofGenre(parts, parts.scores, -1e9)]),
    inputs: { wanted: NO_GENRE },
    scored: (scores, query) => softmax(maskedAll(scores, query, -1e9)),
    functions: ["Softmax"],
  },
  {
    name: "softmax of masked scores that still count",
    build: (parts) => parts.graph.op("Softmax", [ofGenre(parts, parts.scores, 1.5)]),
    inputs: { wanted: NO_GENRE },
    scored: (scores, query) => softmax(maskedAll(scores, query, 1.5)),
    functions: ["Softmax"],
  },
  {
    name: "softmax of what each query adds before a mask that counts",
    build: (parts) => {
      const { graph, scores } = parts;
      const added = graph.op("AddV2", [scores, graph.input("added", "float32", [-1, 1])]);
      return graph.op("Softmax", [ofGenre(parts, added, 0.5)]);
    },
    inputs: { wanted: WANTED, added: column(3, -4, 0) },
    scored: (scores, query) => {
      return softmax(
        masked(
          scores.map((score) => score + [3, -4, 0][query]!),
          query,
          0.5,
        ),
      );
    },
    functions: ["Add", "Softmax"],
  },
  {
    name: "logarithm of a softmax of masked scores over a temperature of each query",
    build: (parts) => {
      const { graph } = parts;
      const temperature = graph.input("temperature", "float32", [-1, 1]);
      const bounded = graph.op("Maximum", [temperature, graph.constant([0.5], [])]);
      const hidden = ofGenre(parts, parts.scores, -5);
      return graph.op("LogSoftmax", [graph.op("RealDiv", [hidden, bounded])]);
    },
    inputs: { wanted: WANTED, temperature: column(2, 0, 4) },
    scored: (scores, query) => {
      const logits = masked(scores, query, -5).map((score) => score / [2, 0.5, 4][query]!);
      return softmax(logits).map((power) => Math.log(power));
    },
    functions: ["Div", "LogSoftmax"],
  },
  {
    name: "softmax of scores with a penalty",
    build: (parts) => parts.graph.op("Softmax", [withPenalty(parts, -2)]),
    inputs: { wanted: NO_GENRE },
    scored: (scores, query) => softmax(penalised(scores, query, -2)),
    functions: ["Softmax"],
  },
  {
    name: "softmax of scores with a penalty beside which they are rounded",
    build: (parts) => parts.graph.op("Softmax", [withPenalty(parts, -1e8)]),
    inputs: { wanted: NO_GENRE },
    scored: (scores, query) => softmax(penalised(scores, query, -1e8).map(Math.fround)),
    functions: ["Softmax"],
  },
  {
    name: "softmax with a bias behind a mask, over a temperature",
    build: (parts) => {
      const { graph } = parts;
      const logits = graph.op("AddV2", [ofGenre(parts, parts.scores, -Infinity), parts.bias]);
      return graph.op("Softmax", [graph.op("RealDiv", [logits, graph.constant([0.5], [])])]);
    },
    inputs: { wanted: WANTED },
    scored: (scores, query) => {
      return softmax(masked(plus(scores), query, -Infinity).map((score) => score / 0.5));
    },
    functions: ["Div", "Softmax"],
  },
  {
    name: "a bias behind a mask",
    build: (parts) => {
      return parts.graph.op("AddV2", [ofGenre(parts, parts.scores, -Infinity), parts.bias]);
    },
    inputs: { wanted: WANTED },
    scored: (scores, query) => masked(plus(scores), query, -Infinity),
  },
  {
    name: "a mask behind a softmax, whose sum is of all items",
    build: (parts) => {
      return ofGenre(parts, parts.graph.op("Softmax", [parts.scores]), 0.01);
    },
    inputs: { wanted: WANTED },
    scored: (scores, query) => masked(softmax(scores), query, 0.01),
    functions: ["Softmax"],
  },
  {
    name: "softmax with a bias behind it",
    build: ({ graph, scores, bias: added }) => {
      return graph.op("AddV2", [graph.op("Softmax", [scores]), added]);
    },
    scored: (scores) => plus(softmax(scores)),
    isDense: true,
  },
  {
    name: "temperature of the request",
    build: ({ graph, scores }) => {
      return graph.op("RealDiv", [scores, graph.input("temperature", "float32", [])]);
    },
    inputs: { temperature: scalar(0.3) },
    scored: (scores) => scores.map((score) => score / Math.fround(0.3)),
  },
  {
    name: "temperature of each query, of either sign",
    build: ({ graph, scores }) => {
      return graph.op("RealDiv", [scores, graph.input("temperature", "float32", [-1, 1])]);
    },
    inputs: { temperature: column(0.5, -2, 8) },
    scored: (scores, query) => scores.map((score) => score / [0.5, -2, 8][query]!),
  },
  {
    name: "temperature of each query that cannot be below a bound",
    build: ({ graph, scores }) => {
      const temperature = graph.input("temperature", "float32", [-1, 1]);
      const bounded = graph.op("Maximum", [temperature, graph.constant([2], [])]);
      return graph.op("Sigmoid", [graph.op("RealDiv", [scores, bounded])]);
    },
    inputs: { temperature: column(3, -2, 8) },
    scored: (scores, query) => {
      return scores.map((score) => 1 / (1 + Math.exp(-score / [3, 2, 8][query]!)));
    },
    functions: ["Div", "Sigmoid"],
  },
  {
    name: "weight between two biases",
    build: ({ graph, scores, bias: added }) => {
      const weight = graph.input("weight", "float32", [-1, 1]);
      const weighed = graph.op("Mul", [weight, graph.op("AddV2", [scores, added])]);
      return graph.op("AddV2", [weighed, added]);
    },
    inputs: { weight: column(2, -1, 0) },
    scored: (scores, query) => plus(plus(scores).map((score) => score * [2, -1, 0][query]!)),
  },
  {
    name: "weight between a bias and a constant factor",
    build: ({ graph, scores, bias: added }) => {
      const weight = graph.input("weight", "float32", [-1, 1]);
      const weighed = graph.op("Mul", [graph.op("AddV2", [scores, added]), weight]);
      const scaled = graph.op("Mul", [weighed, graph.constant([-3], [])]);
      return graph.op("Sub", [scaled, added]);
    },
    inputs: { weight: column(2, -1, 0.5) },
    scored: (scores, query) => {
      const weighed = plus(scores).map((score) => -3 * score * [2, -1, 0.5][query]!);
      return weighed.map((score, row) => score - bias[row]!);
    },
  },
  {
    name: "exponential weight behind a sigmoid",
    build: ({ graph, scores }) => {
      const weight = graph.op("Exp", [graph.input("weight", "float32", [-1, 1])]);
      return graph.op("Mul", [graph.op("Sigmoid", [scores]), weight]);
    },
    inputs: { weight: column(2, -1, 0) },
    scored: (scores, query) => {
      return scores.map((score) => Math.exp([2, -1, 0][query]!) / (1 + Math.exp(-score)));
    },
    functions: ["Sigmoid", "Mul"],
  },
  {
    name: "weight of either sign behind a sigmoid",
    build: ({ graph, scores }) => {
      const weight = graph.input("weight", "float32", [-1, 1]);
      return graph.op("Mul", [graph.op("Sigmoid", [scores]), weight]);
    },
    inputs: { weight: column(2, -1, 0.5) },
    scored: (scores, query) => {
      return scores.map((score) => [2, -1, 0.5][query]! / (1 + Math.exp(-score)));
    },
    isDense: true,
  },
  {
    name: "scores without the padding row",
    build: ({ graph, scores }) => sliced(graph, scores, [1]),
    scored: (scores) => scores.slice(1),
  },
  {
    name: "scores of some items by tf.slice, behind a bound",
    build: ({ graph, scores }) => {
      const at = (...numbers: number[]): string => graph.constant(numbers, [2], "int32");
      const part = graph.op("Slice", [scores, at(0, 3), at(-1, 20)], { Index: { type: "int32" } });
      return graph.op("Maximum", [part, graph.constant([-2], [])]);
    },
    scored: (scores) => scores.slice(3, 23).map((score) => Math.max(score, -2)),
    functions: ["Maximum"],
  },
  {
    name: "scores of some items, with a bias of all",
    build: ({ graph, scores, bias: added }) => {
      return sliced(graph, graph.op("AddV2", [scores, added]), [3, 30]);
    },
    scored: (scores) => plus(scores).slice(3, 30),
  },
  {
    name: "a slice of a slice of logits of a kernel",
    build: ({ graph, query, bias: added }) => {
      const kernel = graph.constant(transposed(items, DIM), [DIM, ITEMS]);
      const logits = graph.op("MatMul", [query, kernel], PLAIN_PRODUCT);
      const biased = graph.op("BiasAdd", [logits, added]);
      return graph.op("Sigmoid", [sliced(graph, sliced(graph, biased, [2, -3]), [1])]);
    },
    scored: (scores) => {
      return plus(scores)
        .slice(3, -3)
        .map((score) => 1 / (1 + Math.exp(-score)));
    },
    functions: ["Sigmoid"],
  },
  {
    name: "a softmax of a slice of masked scores",
    build: (parts) => {
      const { graph } = parts;
      return graph.op("Softmax", [sliced(graph, ofGenre(parts, parts.scores, -Infinity), [1])]);
    },
    inputs: { wanted: WANTED },
    scored: (scores, query) => softmax(masked(scores, query, -Infinity).slice(1)),
    functions: ["Softmax"],
  },
  {
    name: "a slice of distances",
    build: ({ graph, query, scores }) => {
      const square = (value: string): string => graph.op("Square", [value]);
      const matrix = graph.constant(items, [ITEMS, DIM]);
      const sums = (value: string, keep: boolean): string =>
        graph.op("Sum", [square(value), graph.constant([1], [1], "int32")], {
          Tidx: { type: "int32" },
          keep_dims: keep,
        });
      const twice = graph.op("Mul", [scores, graph.constant([2], [])]);
      const nearness = graph.op("Sub", [twice, sums(matrix, false)]);
      return graph.op("Sub", [sliced(graph, nearness, [1]), sums(query, true)]);
    },
    scored: (scores, query) => {
      const norm = queries[query]!.reduce((sum, value) => sum + value * value, 0);
      return scores.map((score, row) => 2 * score - squareOf(row) - norm).slice(1);
    },
    functions: ["Sub"],
  },
  {
    name: "a slice behind a softmax of all",
    build: ({ graph, scores }) => sliced(graph, graph.op("Softmax", [scores]), [1]),
    scored: (scores) => softmax(scores).slice(1),
    isDense: true,
  },
  {
    name: "scores over which a scatter writes",
    build: ({ graph, scores }) => {
      const updates = graph.op("Fill", [count(graph), graph.constant([-Infinity], [])], FILL);
      return graph.op("TensorScatterUpdate", [scores, pairs(graph), updates], SCATTER);
    },
    inputs: { pairs: PAIRS, count: COUNT },
    scored: (scores, query) => without(scores, query, -Infinity),
  },
  {
    name: "a softmax of scores over which a scatter writes, without the padding row",
    build: ({ graph, scores }) => {
      const updates = graph.op("Fill", [count(graph), graph.constant([-1e9], [])], FILL);
      const written = graph.op("TensorScatterUpdate", [scores, pairs(graph), updates], SCATTER);
      return graph.op("Softmax", [sliced(graph, written, [1])]);
    },
    inputs: { pairs: PAIRS, count: COUNT },
    scored: (scores, query) => softmax(without(scores, query, -1e9).slice(1)),
    functions: ["Softmax"],
  },
  {
    name: "a scatter of a constant into the first column, and one of the least float",
    build: ({ graph, scores }) => {
      const least = -3.4028234663852886e38;
      const first = graph.constant([0, 0, 1, 0, 2, 0], [3, 2], "int32");
      const updates = graph.op("Fill", [count(graph), graph.constant([least], [])], FILL);
      const written = graph.op("TensorScatterMin", [scores, pairs(graph), updates], SCATTER);
      const others = graph.constant([least, least, least], [3]);
      return graph.op("TensorScatterUpdate", [written, first, others], SCATTER);
    },
    inputs: { pairs: PAIRS, count: COUNT },
    scored: (scores, query) => {
      const least = -3.4028234663852886e38;
      return without(scores, query, least).map((score, row) => (row === 0 ? least : score));
    },
  },
  {
    name: "a mask of what a scatter counts",
    build: ({ graph, scores }) => {
      const ones = graph.op("Fill", [count(graph), graph.constant([1], [])], FILL);
      const shape = graph.constant([queries.length, ITEMS], [2], "int32");
      const counts = graph.op("ScatterNd", [pairs(graph), ones, shape], SCATTER);
      const isSeen = graph.op("Greater", [counts, graph.constant([0], [])]);
      return graph.op("SelectV2", [isSeen, graph.constant([-7], []), scores]);
    },
    inputs: { pairs: PAIRS, count: COUNT },
    scored: (scores, query) => without(scores, query, -7),
  },
  {
    name: "a penalty where a scatter writes into zeros",
    build: ({ graph, scores }) => {
      const ones = graph.op("Fill", [count(graph), graph.constant([1], [])], FILL);
      const zeros = graph.op("ZerosLike", [scores]);
      const flags = graph.op("TensorScatterUpdate", [zeros, pairs(graph), ones], SCATTER);
      return graph.op("Sub", [scores, graph.op("Mul", [flags, graph.constant([2.5], [])])]);
    },
    inputs: { pairs: PAIRS, count: COUNT },
    scored: (scores, query) => {
      const seen = without(scores, query, NaN);
      return scores.map((score, row) => (Number.isNaN(seen[row]!) ? score - 2.5 : score));
    },
  },
  {
    name: "counts of a scatter that are subtracted",
    build: ({ graph, scores }) => {
      const ones = graph.op("Fill", [count(graph), graph.constant([1], [])], FILL);
      const shape = graph.constant([queries.length, ITEMS], [2], "int32");
      const counts = graph.op("ScatterNd", [pairs(graph), ones, shape], SCATTER);
      return graph.op("Sub", [scores, counts]);
    },
    inputs: { pairs: PAIRS, count: COUNT },
    scored: (scores, query) => {
      return scores.map((score, row) => {
        return score - LISTED.filter(([of, item]) => of === query && item === row).length;
      });
    },
    isDense: true,
  },
  {
    name: "scores times a value of each item, of either sign, between biases",
    build: ({ graph, scores, bias: added }) => {
      const biased = graph.op("Mul", [graph.op("AddV2", [scores, added]), added]);
      return graph.op("Sigmoid", [graph.op("AddV2", [biased, added])]);
    },
    scored: (scores) => {
      const biased = plus(scores).map((score, row) => score * bias[row]!);
      return plus(biased).map((score) => 1 / (1 + Math.exp(-score)));
    },
    functions: ["Sigmoid"],
  },
  {
    name: "scores over a computed value of each item, of a slice and a weight of the request",
    build: ({ graph, scores, bias: added }) => {
      const divisors = graph.op("Exp", [added]);
      const weight = graph.input("weight", "float32", [-1, 1]);
      const divided = graph.op("RealDiv", [scores, graph.op("Mul", [weight, divisors])]);
      return sliced(graph, divided, [4]);
    },
    inputs: { weight: column(2, -0.5, 1) },
    scored: (scores, query) => {
      const over = [2, -0.5, 1][query]!;
      return scores.map((score, row) => score / (over * Math.exp(bias[row]!))).slice(4);
    },
  },
  {
    name: "scores less the largest one",
    build: ({ graph, scores }) => {
      const axis = graph.constant([1], [1], "int32");
      const best = graph.op("Max", [scores, axis], { keep_dims: true, Tidx: { type: "int32" } });
      return graph.op("Sub", [scores, best]);
    },
    scored: (scores) => scores.map((score) => score - Math.max(...scores)),
    functions: ["Sub"],
    isReadWhole: true,
  },
  {
    name: "the size of whole numbers, which many items share",
    build: ({ graph, scores }) => graph.op("Abs", [graph.op("Floor", [scores])]),
    scored: (scores) => scores.map((score) => Math.abs(Math.floor(score))),
    isDense: true,
  },
  {
    name: "a value of each item behind a sigmoid",
    build: ({ graph, scores, bias: added }) => {
      return graph.op("Mul", [graph.op("Sigmoid", [scores]), added]);
    },
    scored: (scores) => scores.map((score, row) => bias[row]! / (1 + Math.exp(-score))),
    isDense: true,
  },
  {
    name: "a layer that Keras quantises to int8",
    build: ({ graph, query, bias: added }) => {
      const { kernel, scales } = QUANTISED;
      const int8 = { type: "int8" } as const;
      const float = { type: "float32" } as const;
      const largest = graph.op(
        "Max",
        [graph.op("Abs", [query]), graph.constant([1], [1], "int32")],
        {
          Tidx: { type: "int32" },
          keep_dims: true,
        },
      );
      const safe = graph.op("AddV2", [largest, graph.constant([1e-7], [])]);
      const scale = graph.op("RealDiv", [graph.constant([127], []), safe]);
      const rounded = graph.op("Round", [graph.op("Mul", [query, scale])]);
      const [low, high] = [-127, 127].map((bound) => graph.constant([bound], []));
      const clipped = graph.op("ClipByValue", [rounded, low!, high!]);
      const integers = graph.op("Cast", [clipped], { SrcT: float, DstT: int8 });
      const stored = graph.constant(kernel, [DIM, ITEMS], "int8");
      const sums = graph.op("BatchMatMulV3", [integers, stored], {
        Ta: int8,
        Tb: int8,
        Tout: { type: "int32" },
        adj_x: false,
        adj_y: false,
      });
      const casts = { SrcT: { type: "int32" }, DstT: float } as const;
      const scalesOfAll = graph.op("Mul", [scale, graph.constant(scales, [ITEMS])]);
      const logits = graph.op("RealDiv", [graph.op("Cast", [sums], casts), scalesOfAll]);
      return graph.op("BiasAdd", [logits, added]);
    },
    scored: (_, query) => {
      const { kernel, scales } = QUANTISED;
      const own = queries[query]!;
      const scale = Math.fround(127 / Math.max(...own.map(Math.abs)));
      const integers = own.map((value) => Math.round(value * scale));
      return plus(
        ids.map((_id, row) => {
          const sum = integers.reduce(
            (total, value, at) => total + value * kernel[at * ITEMS + row]!,
            0,
          );
          return sum / (scale * scales[row]!);
        }),
      );
    },
  },
  {
    name: "the first of tf.argsort, by whose rows the scores are gathered",
    build: ({ graph, scores, bias: added }) => graph.op("AddV2", [scores, added]),
    rank: (graph, scores, of) => {
      const [, rows] = firstOfAll(graph, scores);
      const axis = graph.constant([1], [], "int32");
      const types = { Tparams: { type: "float32" }, Tindices: INT32, Taxis: INT32 } as const;
      const gathered = graph.op("GatherV2", [scores, rows, axis], { ...types, batch_dims: 1 });
      answered(graph, { scores: gathered, rows, of });
    },
    scored: plus,
  },
  {
    name: "the first of tf.sort and tf.argsort, equal scores by row",
    build: ({ graph, scores }) => graph.op("Maximum", [scores, graph.constant([0.5], [])]),
    rank: (graph, scores, of) => {
      const [best, rows] = firstOfAll(graph, scores);
      answered(graph, { scores: best, rows, of });
    },
    scored: (scores) => scores.map((score) => Math.max(score, 0.5)),
    functions: ["Maximum"],
  },
  {
    name: "the first of all ids in the order of scores",
    build: ({ scores }) => scores,
    rank: (graph, scores, of) => {
      const all = graph.op("TopKV2", [scores, graph.constant([ITEMS], [], "int32")]);
      const axis = graph.constant([0], [], "int32");
      const types = { Tparams: { type: "string" }, Tindices: INT32, Taxis: INT32 } as const;
      const inOrder = graph.op("GatherV2", [of, `${all}:1`, axis], types);
      const at = (...numbers: number[]): string => graph.constant(numbers, [2], "int32");
      const first = (value: string, dtype: "float32" | "string"): string =>
        graph.op("Slice", [value, at(0, 0), at(-1, K)], { T: { type: dtype }, Index: INT32 });
      graph.output("scores", first(all, "float32"), { dtype: "float32", shape: [-1, K] });
      graph.output("ids", first(inOrder, "string"), { dtype: "string", shape: [-1, K] });
    },
    scored: (scores) => scores,
  },
  {
    name: "the first of tf.argsort of scores that are not cut",
    build: ({ graph, scores, bias: added }) => {
      return graph.op("Mul", [graph.op("Sigmoid", [scores]), added]);
    },
    rank: (graph, scores, of) => {
      const [best, rows] = firstOfAll(graph, scores);
      answered(graph, { scores: best, rows, of });
    },
    scored: (scores) => scores.map((score, row) => bias[row]! / (1 + Math.exp(-score))),
    isDense: true,
  },
  {
    name: "embeddings that Keras quantises to int8",
    build: ({ graph, bias: added }) => {
      const { kernel, scales } = QUANTISED;
      const table = graph.constant(kernel, [ITEMS, DIM], "int8");
      const rows = graph.input("rows", "int32", [-1]);
      const axis = graph.constant([0], [], "int32");
      const types = { Tindices: { type: "int32" }, Taxis: { type: "int32" } } as const;
      const taken = graph.op("GatherV2", [table, rows, axis], {
        Tparams: { type: "int8" },
        ...types,
      });
      const casts = { SrcT: { type: "int8" }, DstT: { type: "float32" } } as const;
      const scaleOf = graph.op("GatherV2", [graph.constant(scales, [ITEMS]), rows, axis], {
        Tparams: { type: "float32" },
        ...types,
      });
      const column = graph.op("ExpandDims", [scaleOf, graph.constant([1], [], "int32")], {
        Tdim: { type: "int32" },
      });
      const embedded = graph.op("RealDiv", [graph.op("Cast", [taken], casts), column]);
      const matrix = graph.constant(items, [ITEMS, DIM]);
      const product = { transpose_a: false, transpose_b: true } as const;
      const own = graph.op("MatMul", [embedded, matrix], product);
      return graph.op("AddV2", [own, added]);
    },
    lookups: 1,
    inputs: { rows: { dtype: "int32", shape: [3], data: Int32Array.of(5, 0, 36) } },
    scored: (_, query) => {
      const { kernel, scales } = QUANTISED;
      const user = [5, 0, 36][query]!;
      const own = kernel.slice(user * DIM, (user + 1) * DIM).map((value) => value / scales[user]!);
      return plus(
        ids.map((_id, row) =>
          own.reduce((sum, value, at) => sum + value * items[row * DIM + at]!, 0),
        ),
      );
    },
  },
];

/** Writes a version directory whose signature ranks the scores of a shape. */
export function writeScores(shape: Shape, directory: string): void {
  const graph = new GraphWriter();
  const query = graph.input("query", "float32", [-1, DIM]);
  const matrix = graph.constant(items, [ITEMS, DIM]);
  const scores = graph.op("MatMul", [query, matrix], { transpose_a: false, transpose_b: true });
  const added = graph.constant(bias, [ITEMS]);
  const ranked = shape.build({ graph, query, scores, bias: added });
  const all = graph.strings(ids);
  if (shape.rank === undefined) graph.best(ranked, all, K);
  else shape.rank(graph, ranked, all);
  graph.write(directory);
}

/** What the signature is asked. */
export function inputsOf({ inputs = {} }: Shape): ReadonlyMap<string, Tensor> {
  const data = Float32Array.from(queries.flat());
  const query: Tensor = { dtype: "float32", shape: [queries.length, DIM], data };
  return new Map([["query", query], ...Object.entries(inputs)]);
}

/** What is wrong with an answer, or `undefined`. */
export function faultOf(shape: Shape, answer: ReadonlyMap<string, Tensor>): string | undefined {
  const [found, scores] = [answer.get("ids"), answer.get("scores")];
  if (found?.dtype !== "string" || scores?.dtype !== "float32") return "no ids, or no scores";
  const texts = found.data.toText();
  for (const [at, ofQuery] of products.entries()) {
    const wanted = shape.scored(ofQuery, at);
    for (const [rank, row] of bestOf(wanted).entries()) {
      const place = at * K + rank;
      if (texts[place] !== ids[row]) return `query ${at}: ${texts[place]}, not ${ids[row]}`;
      const error = Math.abs(scores.data[place]! - wanted[row]!);
      if (!(error < 1e-5 * Math.max(1, Math.abs(wanted[row]!)))) {
        return `query ${at}, ${ids[row]}: ${scores.data[place]}, not ${wanted[row]}`;
      }
    }
  }
  return undefined;
}

/** The best rows by scores, equal ones by row. */
function bestOf(scores: readonly number[]): readonly number[] {
  const rows = Array.from(scores.keys());
  return rows.toSorted((a, b) => scores[b]! - scores[a]! || a - b).slice(0, K);
}
