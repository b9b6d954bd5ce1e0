// Scores of recommenders that nobody has recorded, as small graphs: each is cut, and answers what plain float64
// arithmetic gives for the same numbers.

import path from "node:path";
import type { Tensor, TopKStep } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import { describe, expect, test } from "vitest";
import { GraphWriter } from "./models/graph-writer.ts";
import { ProgramMachine } from "./models/program-machine.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const root = temporaryDirectory();
const ITEMS = 37;
const DIM = 5;
const K = 6;

/** Numbers between -1 and 1 that differ, and are the same in every run. */
function numbers(count: number, seed: number): number[] {
  return Array.from({ length: count }, (_, at) => Math.fround(Math.sin(at * 12.9898 + seed * 7)));
}

const items = numbers(ITEMS * DIM, 1);
const bias = numbers(ITEMS, 2);
const ids = Array.from({ length: ITEMS }, (_, row) => `item ${row}`);
const queries = [1, 2, 3].map((seed) => numbers(DIM, seed + 10).map((value) => value * 4));
const products = queries.map((query) =>
  ids.map((_, row) => {
    return query.reduce((sum, value, at) => sum + value * items[row * DIM + at]!, 0);
  }),
);

interface Built {
  readonly graph: GraphWriter;
  /** `[queries, items]`. */
  readonly scores: string;
  readonly bias: string;
}

interface Shape {
  readonly name: string;
  /** Gives the scores that are ranked. */
  readonly build: (parts: Built) => string;
  /** What they must be for a query, given its products. */
  readonly scored: (products: readonly number[], query: number) => readonly number[];
  /** Further inputs by name: a value for each query, or one. */
  readonly inputs?: Readonly<Record<string, Tensor>>;
  readonly functions?: readonly string[];
  /** Whether it stays in a dense part. */
  readonly isDense?: true;
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

const plus = (scores: readonly number[]): number[] =>
  scores.map((score, row) => score + bias[row]!);

const SHAPES: readonly Shape[] = [
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
    isDense: true,
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
];

function written(shape: Shape): string {
  const graph = new GraphWriter();
  const query = graph.input("query", "float32", [-1, DIM]);
  const matrix = graph.constant(items, [ITEMS, DIM]);
  const scores = graph.op("MatMul", [query, matrix], { transpose_a: false, transpose_b: true });
  const added = graph.constant(bias, [ITEMS]);
  const ranked = shape.build({ graph, scores, bias: added });
  graph.best(ranked, graph.strings(ids), K);
  const directory = path.join(root, shape.name);
  graph.write(directory);
  return directory;
}

/** The best rows by scores, equal ones by row. */
function bestOf(scores: readonly number[]): readonly number[] {
  const rows = Array.from(scores.keys());
  return rows.toSorted((a, b) => scores[b]! - scores[a]! || a - b).slice(0, K);
}

interface Answered {
  /** What the items are a part of: a table, or the dense part. */
  readonly kind: string;
  readonly functions: readonly string[];
  readonly scores: Float32Array;
  readonly ids: readonly string[];
}

async function answerOf(shape: Shape): Promise<Answered> {
  const version = openModelVersion(written(shape));
  try {
    const machine = await ProgramMachine.load(version);
    const signature = machine.signature("serving_default");
    const search = signature.steps.find((step): step is TopKStep => step.kind === "topK");
    const data = Float32Array.from(queries.flat());
    const query: Tensor = { dtype: "float32", shape: [queries.length, DIM], data };
    const others = Object.entries(shape.inputs ?? {});
    const answer = await machine.run(signature, new Map([["query", query], ...others]));
    const found = answer.get("ids")!;
    return {
      kind: version.program.tables[search?.table ?? -1]?.kind ?? "dense",
      functions: (search?.functions ?? []).map(({ op }) => op),
      scores: answer.get("scores")!.data as Float32Array,
      ids: found.dtype === "string" ? found.data.toText() : [],
    };
  } finally {
    version.close();
  }
}

describe("a written graph", () => {
  test.each(SHAPES)("$name", async (shape) => {
    const answer = await answerOf(shape);

    expect(answer.kind).toBe(shape.isDense === true ? "dense" : "candidate");
    expect(answer.functions).toEqual(shape.functions ?? answer.functions);
    for (const [at, ofQuery] of products.entries()) {
      const wanted = shape.scored(ofQuery, at);
      const rows = bestOf(wanted);
      expect(answer.ids.slice(at * K, (at + 1) * K)).toEqual(rows.map((row) => ids[row]));
      for (const [rank, row] of rows.entries()) {
        const error = Math.abs(answer.scores[at * K + rank]! - wanted[row]!);
        expect(error).toBeLessThan(1e-5 * Math.max(1, Math.abs(wanted[row]!)));
      }
    }
  });
});
