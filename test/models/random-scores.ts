// Scores that no model is known to have: a product of queries and items, behind it operations drawn at random, and a
// top-k. The graph and plain float64 arithmetic are made side by side, one operation at a time, so that what the graph
// must answer is known whether a search is recognised in it or not. Beside each number goes how far float32 may be off.

import type { Tensor } from "@winnow/core";
import { GraphWriter } from "./graph-writer.ts";

const ITEMS = 23;
const DIM = 4;
const QUERIES = 3;
const K = 5;
/** What an operation on float32 may be off, relatively: some units in the last place. */
const EPSILON = 1e-6;
/** What a function may be off, absolutely: sigmoids and the like are approximated by polynomials. */
const APPROXIMATION = 3e-7;
/** Scores that may be off by more than this, relatively, are not looked at. */
const ERROR_MAX = 1e-3;
const INT32 = { type: "int32" } as const;
const FLOAT = { type: "float32" } as const;

/** Integers that choose, each modulo the number of choices; the smallest choose what is simplest. */
export interface RandomScores {
  /** The shape of the query: several, one, or one without an axis of queries. */
  readonly form: number;
  readonly source: number;
  readonly steps: readonly { readonly op: number; readonly a: number; readonly b: number }[];
  readonly rank: number;
}

/** Numbers of a value of the graph, by rows of queries, and what each may be off. */
interface Numbers {
  readonly rows: number;
  readonly width: number;
  readonly values: Float64Array;
  readonly errors: Float64Array;
}

/** A value of the graph: `[queries, items]`, `[items]`, `[queries, 1]` or `[]`. */
interface Value extends Numbers {
  readonly node: string;
}

/** What a graph must answer. */
export interface ExpectedScores {
  readonly inputs: ReadonlyMap<string, Tensor>;
  /** What is drawn, in words. */
  readonly text: string;
  /** What is wrong with an answer, or `undefined`. */
  readonly faultOf: (answer: ReadonlyMap<string, Tensor>) => string | undefined;
}

/** Numbers between -1 and 1 that differ. */
function numbers(count: number, seed: number): number[] {
  return Array.from({ length: count }, (_, at) => {
    return Math.fround(Math.sin(at * 12.9898 + seed * 7.13 + 0.7));
  });
}

function exact(values: readonly number[], rows: number): Numbers {
  return {
    rows,
    width: values.length / rows,
    values: Float64Array.from(values),
    errors: new Float64Array(values.length),
  };
}

function difference(a: number, b: number): number {
  return a === b ? 0 : Math.abs(a - b);
}

/** A graph under construction, with its inputs and the words for what was drawn. */
class Drawing {
  readonly graph = new GraphWriter();
  readonly inputs = new Map<string, Tensor>();
  readonly words: string[] = [];
  /** Queries, 0 where the query has no axis of them. */
  readonly rows: number;
  readonly query: Value;
  #seed = 0;

  constructor(form: number) {
    const shape = [[-1, DIM], [1, DIM], [DIM]][form % 3]!;
    this.rows = shape.length === 1 ? 0 : shape[0] === 1 ? 1 : QUERIES;
    const values = numbers(this.queries * DIM, 3).map((value) => Math.fround(2 * value));
    const node = this.graph.input("query", "float32", shape);
    const data = Float32Array.from(values);
    const asked = this.rows === 0 ? [DIM] : [this.rows, DIM];
    this.inputs.set("query", { dtype: "float32", shape: asked, data });
    this.query = { node, ...exact(values, this.queries) };
    this.words.push(`query [${shape.join(", ")}]`);
  }

  get queries(): number {
    return Math.max(1, this.rows);
  }

  /** Numbers that were not drawn before. */
  fresh(count: number): number[] {
    return numbers(count, 20 + (this.#seed += 1));
  }

  ints(...values: readonly number[]): string {
    return this.graph.constant(values, [values.length], "int32");
  }

  scalar(value: number): Value {
    return { node: this.graph.constant([value], []), ...exact([Math.fround(value)], 1) };
  }

  /** A value for each item: of both signs, positive, equal, with items that are hidden, flags; or computed of such ones. */
  vector(width: number, kind: number): Value {
    const drawn = this.fresh(width);
    const stored = (values: readonly number[]): Value => {
      return { node: this.graph.constant(values, [width]), ...exact(values, 1) };
    };
    const positive = drawn.map((value) => Math.fround(Math.abs(value) + 0.25));
    const makers: readonly (() => Value)[] = [
      () => stored(drawn),
      () => stored(positive),
      () => stored(drawn.map(() => 0.5)),
      () => stored(drawn.map((value, at) => (at % 7 === 0 ? -Infinity : value))),
      () => stored(drawn.map((_, at) => (at % 3 === 0 ? 0 : 1))),
      () => this.unary("Neg", stored(drawn), (value) => -value),
      () => this.unary("Log1p", stored(positive), Math.log1p),
      () => this.binary("Mul", [stored(drawn), this.scalar(-0.5)], times),
      () => this.binary("Mul", [this.column(0), stored(drawn)], times),
      () => this.binary("AddV2", [stored(drawn), stored(this.fresh(width))], plus),
    ];
    return makers[kind % makers.length]!();
  }

  /** A value for each query: of the request, of either sign or positive, or computed of the query. */
  column(kind: number): Value {
    const { queries } = this;
    if (kind % 3 === 2 && this.rows > 0) {
      const weights = this.fresh(DIM);
      const node = this.graph.op(
        "MatMul",
        [this.query.node, this.graph.constant(weights, [DIM, 1])],
        { transpose_a: false, transpose_b: false },
      );
      return { node, ...products(this.query, weights, 1) };
    }
    const values = this.fresh(queries).map((value) =>
      Math.fround(kind % 3 === 1 ? Math.abs(value) + 0.5 : value + 0.1),
    );
    const name = `column_${this.inputs.size}`;
    const isScalar = this.rows === 0;
    const node = this.graph.input(name, "float32", isScalar ? [] : [-1, 1]);
    const data = Float32Array.from(values);
    this.inputs.set(name, { dtype: "float32", shape: isScalar ? [] : [queries, 1], data });
    return { node, ...exact(values, queries) };
  }

  /** The product of a query and a table of so many items, by one of its spellings. */
  product(query: Value, items: number, spelling: number): Value {
    const table = this.fresh(items * DIM);
    const found = products(query, transposed(table, DIM), items);
    const node = this.#productNode(query.node, { table, items }, spelling % 6);
    return { node, ...found };
  }

  #productNode(
    query: string,
    { table, items }: { readonly table: readonly number[]; readonly items: number },
    spelling: number,
  ): string {
    const { graph } = this;
    const rows =
      this.rows === 0 ? graph.op("ExpandDims", [query, this.zero()], { Tdim: INT32 }) : query;
    const flat = (node: string): string =>
      this.rows === 0 ? graph.op("Squeeze", [node], { squeeze_dims: [0] }) : node;
    if (spelling === 0) {
      const stored = graph.constant(table, [items, DIM]);
      return flat(graph.op("MatMul", [rows, stored], { transpose_a: false, transpose_b: true }));
    }
    if (spelling === 1) {
      const stored = graph.constant(transposed(table, DIM), [DIM, items]);
      return flat(graph.op("MatMul", [rows, stored], { transpose_a: false, transpose_b: false }));
    }
    const stored = graph.constant(table, [items, DIM]);
    if (spelling === 2) {
      const equation = this.rows === 0 ? "d,nd->n" : "qd,nd->qn";
      return graph.op("Einsum", [query, stored], { equation, N: 2 });
    }
    if (spelling > 3 && this.rows > 1)
      return this.#repeatedProduct(query, { stored, items }, spelling);
    const each =
      this.rows === 0 ? query : graph.op("ExpandDims", [query, this.one()], { Tdim: INT32 });
    const multiplied = graph.op("Mul", [each, stored]);
    const last = graph.constant([-1], [], "int32");
    return graph.op("Sum", [multiplied, last], { Tidx: INT32, keep_dims: false });
  }

  /** Of items that are repeated for each query. */
  #repeatedProduct(
    query: string,
    { stored, items }: { readonly stored: string; readonly items: number },
    spelling: number,
  ): string {
    const { graph } = this;
    const sizes = graph.op("Shape", [this.query.node], { out_type: INT32 });
    const queries = graph.op("StridedSlice", [sizes, this.ints(0), this.ints(1), this.ints(1)], {
      Index: INT32,
      begin_mask: 0,
      end_mask: 0,
      ellipsis_mask: 0,
      new_axis_mask: 0,
      shrink_axis_mask: 1,
    });
    const scalar = (value: number): string => graph.constant([value], [], "int32");
    const whole = (...of: readonly number[]): string =>
      graph.op("Pack", [queries, ...of.map(scalar)], { N: 3, axis: 0 });
    if (spelling === 4) {
      const types = { Tidx: INT32 };
      const each = graph.op("BroadcastTo", [stored, whole(items, DIM)], types);
      return graph.op("Einsum", [query, each], { equation: "bd,bnd->bn", N: 2 });
    }
    const once = graph.op("ExpandDims", [stored, this.zero()], { Tdim: INT32 });
    const each = graph.op("Tile", [once, whole(1, 1)], { Tmultiples: INT32 });
    const row = graph.op("ExpandDims", [query, this.one()], { Tdim: INT32 });
    const product = graph.op("BatchMatMulV2", [row, each], { adj_x: false, adj_y: true });
    return graph.op("Squeeze", [product], { squeeze_dims: [1] });
  }

  zero(): string {
    return this.graph.constant([0], [], "int32");
  }

  one(): string {
    return this.graph.constant([1], [], "int32");
  }

  /** An operation on each value by itself. */
  unary(op: string, of: Value, compute: (value: number) => number): Value {
    const isExact = EXACT.has(op);
    const values = of.values.map(compute);
    const errors = of.errors.map((error, at) => {
      const value = of.values[at]!;
      const [low, high] = [compute(value - error), compute(value + error)];
      const moved = Math.max(difference(low, values[at]!), difference(high, values[at]!));
      return moved + (isExact ? 0 : roundingOf(values[at]!) + APPROXIMATION);
    });
    return { ...of, node: this.graph.op(op, [of.node]), values, errors };
  }

  /** An operation on two values, which may be a number for each item or query, in this order. */
  binary(
    op: string,
    operands: readonly [Value, Value],
    compute: (a: number, b: number) => number,
  ): Value {
    const node = this.graph.op(
      op,
      operands.map((operand) => operand.node),
    );
    const isExact = op === "Maximum" || op === "Minimum";
    return { node, ...combined(operands, compute, isExact) };
  }
}

function roundingOf(value: number): number {
  return Number.isFinite(value) ? EPSILON * Math.abs(value) : 0;
}

function combined(
  [a, b]: readonly [Numbers, Numbers],
  compute: (a: number, b: number) => number,
  isExact: boolean,
): Numbers {
  const rows = Math.max(a.rows, b.rows);
  const width = Math.max(a.width, b.width);
  const values = new Float64Array(rows * width);
  const errors = new Float64Array(rows * width);
  for (let at = 0; at < values.length; at += 1) {
    const [x, y] = [placeIn(a, at, width), placeIn(b, at, width)];
    const [p, q, pe, qe] = [a.values[x]!, b.values[y]!, a.errors[x]!, b.errors[y]!];
    const value = compute(p, q);
    const moved = [compute(p - pe, q), compute(p + pe, q), compute(p, q - qe), compute(p, q + qe)];
    const [first, second, third, fourth] = moved.map((each) => difference(each, value));
    values[at] = value;
    errors[at] =
      Math.max(first!, second!) + Math.max(third!, fourth!) + (isExact ? 0 : roundingOf(value));
  }
  return { rows, width, values, errors };
}

function placeIn({ rows, width }: Numbers, at: number, of: number): number {
  const row = rows === 1 ? 0 : Math.floor(at / of);
  return row * width + (width === 1 ? 0 : at % of);
}

/** Products of queries and `weights`, `[DIM, width]`. */
function products(query: Numbers, weights: readonly number[], width: number): Numbers {
  const values = new Float64Array(query.rows * width);
  const errors = new Float64Array(query.rows * width);
  for (let at = 0; at < values.length; at += 1) {
    const [row, column] = [Math.floor(at / width), at % width];
    for (let d = 0; d < DIM; d += 1) {
      const weight = weights[d * width + column]!;
      const term = query.values[row * DIM + d]! * weight;
      values[at]! += term;
      errors[at]! += EPSILON * Math.abs(term) + query.errors[row * DIM + d]! * Math.abs(weight);
    }
  }
  return { rows: query.rows, width, values, errors };
}

/** Rows of so many values as columns. */
function transposed(values: readonly number[], width: number): number[] {
  const rows = values.length / width;
  return Array.from(values, (_, at) => values[(at % rows) * width + Math.floor(at / rows)]!);
}

/** What is ranked before any step. */
type Source = (drawing: Drawing) => Value;
const SOURCES: readonly (readonly [words: string, source: Source])[] = [
  ["q @ items.T", (drawing) => drawing.product(drawing.query, ITEMS, 0)],
  ["q @ items", (drawing) => drawing.product(drawing.query, ITEMS, 1)],
  ["einsum", (drawing) => drawing.product(drawing.query, ITEMS, 2)],
  ["sum(q * items)", (drawing) => drawing.product(drawing.query, ITEMS, 3)],
  ["tower(q) @ items.T", (drawing) => drawing.product(tower(drawing, drawing.query), ITEMS, 0)],
  [
    "tower(q) @ items.T + q @ other.T",
    (drawing) => {
      const first = drawing.product(tower(drawing, drawing.query), ITEMS, 0);
      return drawing.binary("AddV2", [first, drawing.product(drawing.query, ITEMS, 0)], plus);
    },
  ],
  [
    "concat of two tables",
    (drawing) => {
      const first = drawing.product(drawing.query, ITEMS, 0);
      return concatenated(drawing, first, drawing.product(drawing.query, 11, 0));
    },
  ],
  [
    "maximum of two products",
    (drawing) => {
      const first = drawing.product(tower(drawing, drawing.query), ITEMS, 0);
      return drawing.binary("Maximum", [first, drawing.product(drawing.query, ITEMS, 0)], Math.max);
    },
  ],
  ["-|q - items|²", (drawing) => distance(drawing, 0)],
  ["-square(q - items)", (drawing) => distance(drawing, 1)],
  ["-(q - items)²", (drawing) => distance(drawing, 2)],
  ["q @ unit(items).T", (drawing) => computed(drawing, unitItems)],
  ["q @ (items * weights).T", (drawing) => computed(drawing, weighedItems)],
  ["q @ tower(items).T", (drawing) => computed(drawing, towerOfItems)],
  ["q @ items[rows].T", (drawing) => computed(drawing, gatheredItems)],
  ["q @ concat([items, others], 1).T", (drawing) => computed(drawing, joinedItems)],
  ["the best of two interests", (drawing) => interests(drawing)],
  ["dense(q * items)", (drawing) => gated(drawing)],
  ["einsum(q, broadcast(items))", (drawing) => drawing.product(drawing.query, ITEMS, 4)],
  ["q @ tile(items).T", (drawing) => drawing.product(drawing.query, ITEMS, 5)],
  ["the best of stacked products", (drawing) => stackedProducts(drawing)],
];

/** What is drawn first, in words. */
export const SOURCE_NAMES: readonly string[] = SOURCES.map(([words]) => words);

const plus = (a: number, b: number): number => a + b;
const minus = (a: number, b: number): number => a - b;
const times = (a: number, b: number): number => a * b;
const over = (a: number, b: number): number => a / b;
const sigmoid = (value: number): number => 1 / (1 + Math.exp(-value));

/** A layer over the query. */
function tower(drawing: Drawing, query: Value): Value {
  const weights = drawing.fresh(DIM * DIM);
  const { graph } = drawing;
  const flat = drawing.rows === 0;
  const rows = flat
    ? graph.op("ExpandDims", [query.node, drawing.zero()], { Tdim: INT32 })
    : query.node;
  const product = graph.op("MatMul", [rows, graph.constant(weights, [DIM, DIM])], {
    transpose_a: false,
    transpose_b: false,
  });
  const node = flat ? graph.op("Squeeze", [product], { squeeze_dims: [0] }) : product;
  return drawing.unary("Tanh", { node, ...products(query, weights, DIM) }, Math.tanh);
}

/** `reduce_max(stack([2 * (tower(q) @ a.T), -(q @ b.T), q @ a.T], axis), axis)`. */
function stackedProducts(drawing: Drawing): Value {
  const { graph } = drawing;
  const rivals = [
    drawing.binary(
      "Mul",
      [drawing.product(tower(drawing, drawing.query), ITEMS, 0), drawing.scalar(2)],
      times,
    ),
    drawing.unary("Neg", drawing.product(drawing.query, ITEMS, 0), (value) => -value),
  ];
  const [first, second] = rivals;
  if (drawing.rows === 0) return drawing.binary("Maximum", [first!, second!], Math.max);
  const nodes = rivals.map(({ node }) => node);
  const stack = graph.op("Pack", nodes, { N: nodes.length, axis: 1 });
  const node = graph.op("Max", [stack, drawing.one()], { Tidx: INT32, keep_dims: false });
  const best = (key: "values" | "errors"): Float64Array =>
    first!.values.map((_, at) => Math.max(...rivals.map((rival) => rival[key][at]!)));
  return { ...first!, node, values: best("values"), errors: best("errors") };
}

function concatenated(drawing: Drawing, first: Value, second: Value): Value {
  const axis = drawing.graph.constant([drawing.rows === 0 ? 0 : 1], [], "int32");
  const node = drawing.graph.op("ConcatV2", [first.node, second.node, axis], { N: 2, Tidx: INT32 });
  const width = first.width + second.width;
  const pick = (key: "values" | "errors"): Float64Array => {
    return Float64Array.from({ length: first.rows * width }, (_, at) => {
      const [row, column] = [Math.floor(at / width), at % width];
      const isFirst = column < first.width;
      const from = isFirst ? first : second;
      return from[key][row * from.width + column - (isFirst ? 0 : first.width)]!;
    });
  };
  return { node, rows: first.rows, width, values: pick("values"), errors: pick("errors") };
}

/** Items that a graph computes of what it stores, `[ITEMS, DIM]`. */
type ItemMaker = (drawing: Drawing) => Value;

const storedItems: ItemMaker = (drawing) => {
  const values = drawing.fresh(ITEMS * DIM);
  return { node: drawing.graph.constant(values, [ITEMS, DIM]), ...exact(values, ITEMS) };
};

/** `items * rsqrt(max(sum(items², 1), ε))`, as tf.math.l2_normalize writes it. */
const unitItems: ItemMaker = (drawing) => {
  const items = storedItems(drawing);
  const { graph } = drawing;
  const squares = graph.op("Square", [items.node]);
  const sum = graph.op("Sum", [squares, drawing.one()], { Tidx: INT32, keep_dims: true });
  const floor = graph.op("Maximum", [sum, graph.constant([1e-12], [])]);
  const node = graph.op("Mul", [items.node, graph.op("Rsqrt", [floor])]);
  return ofItems(node, (at) => {
    const row = Math.floor(at / DIM) * DIM;
    const own = items.values.subarray(row, row + DIM);
    return items.values[at]! / Math.sqrt(own.reduce((total, value) => total + value * value, 0));
  });
};

/** Items times a number for each dimension, and one for each item. */
const weighedItems: ItemMaker = (drawing) => {
  const items = storedItems(drawing);
  const [ofDims, ofRows] = [drawing.fresh(DIM), drawing.fresh(ITEMS)];
  const { graph } = drawing;
  const first = graph.op("Mul", [items.node, graph.constant(ofDims, [DIM])]);
  const node = graph.op("Mul", [first, graph.constant(ofRows, [ITEMS, 1])]);
  return ofItems(
    node,
    (at) => items.values[at]! * ofDims[at % DIM]! * ofRows[Math.floor(at / DIM)]!,
  );
};

const towerOfItems: ItemMaker = (drawing) => {
  const items = storedItems(drawing);
  const [weights, bias] = [drawing.fresh(DIM * DIM), drawing.fresh(DIM)];
  const { graph } = drawing;
  const product = graph.op("MatMul", [items.node, graph.constant(weights, [DIM, DIM])], {
    transpose_a: false,
    transpose_b: false,
  });
  const added = graph.op("BiasAdd", [product, graph.constant(bias, [DIM])]);
  const found = products(items, weights, DIM);
  const node = graph.op("Tanh", [added]);
  return ofItems(node, (at) => Math.tanh(found.values[at]! + bias[at % DIM]!));
};

/** Rows of a larger table, in an order of their own, some of them twice. */
const gatheredItems: ItemMaker = (drawing) => {
  const table = drawing.fresh((ITEMS + 9) * DIM);
  const rows = Array.from({ length: ITEMS }, (_, at) => (at * 5) % (ITEMS + 7));
  const { graph } = drawing;
  const stored = graph.constant(table, [ITEMS + 9, DIM]);
  const types = { Tparams: FLOAT, Tindices: INT32, Taxis: INT32, batch_dims: 0 };
  const node = graph.op("GatherV2", [stored, drawing.ints(...rows), drawing.zero()], types);
  return ofItems(node, (at) => table[rows[Math.floor(at / DIM)]! * DIM + (at % DIM)]!);
};

const joinedItems: ItemMaker = (drawing) => {
  const [first, second] = [drawing.fresh(ITEMS), drawing.fresh(ITEMS * (DIM - 1))];
  const { graph } = drawing;
  const left = graph.constant(first, [ITEMS, 1]);
  const right = graph.constant(second, [ITEMS, DIM - 1]);
  const node = graph.op("ConcatV2", [left, right, drawing.one()], { N: 2, Tidx: INT32 });
  return ofItems(node, (at) => {
    const [row, column] = [Math.floor(at / DIM), at % DIM];
    return column === 0 ? first[row]! : second[row * (DIM - 1) + column - 1]!;
  });
};

function ofItems(node: string, valueAt: (at: number) => number): Value {
  const values = Float64Array.from({ length: ITEMS * DIM }, (_, at) => valueAt(at));
  return { node, rows: ITEMS, width: DIM, values, errors: values.map(roundingOf) };
}

/** The product of the query and items that the graph computes. */
function computed(drawing: Drawing, make: ItemMaker): Value {
  const items = make(drawing);
  const { graph, query } = drawing;
  const isFlat = drawing.rows === 0;
  const rows = isFlat
    ? graph.op("ExpandDims", [query.node, drawing.zero()], { Tdim: INT32 })
    : query.node;
  const product = graph.op("MatMul", [rows, items.node], { transpose_a: false, transpose_b: true });
  const node = isFlat ? graph.op("Squeeze", [product], { squeeze_dims: [0] }) : product;
  const found = products(query, transposed([...items.values], DIM), ITEMS);
  return { node, ...found, errors: found.errors.map((error) => 8 * error) };
}

/** Two vectors of each query, the better of which counts: `max(reshape(q @ w, [-1, 2, dim]) @ items.T, 1)`. */
function interests(drawing: Drawing): Value {
  if (drawing.rows === 0) return drawing.product(drawing.query, ITEMS, 0);
  const [weights, table] = [drawing.fresh(DIM * 2 * DIM), drawing.fresh(ITEMS * DIM)];
  const { graph, query } = drawing;
  const both = graph.op("MatMul", [query.node, graph.constant(weights, [DIM, 2 * DIM])], {
    transpose_a: false,
    transpose_b: false,
  });
  const each = graph.op("Reshape", [both, drawing.ints(-1, 2, DIM)], { Tshape: INT32 });
  const columns = graph.constant(transposed(table, DIM), [DIM, ITEMS]);
  const scores = graph.op("BatchMatMulV2", [each, columns], { adj_x: false, adj_y: false });
  const node = graph.op("Max", [scores, drawing.one()], { Tidx: INT32, keep_dims: false });
  const vectors = products(query, weights, 2 * DIM);
  const split = { ...vectors, rows: 2 * vectors.rows, width: DIM };
  const all = products(split, transposed(table, DIM), ITEMS);
  const better = (key: "values" | "errors"): Float64Array =>
    Float64Array.from({ length: query.rows * ITEMS }, (_, at) => {
      const first = Math.floor(at / ITEMS) * 2 * ITEMS + (at % ITEMS);
      return Math.max(all[key][first]!, all[key][first + ITEMS]!);
    });
  return {
    node,
    rows: query.rows,
    width: ITEMS,
    values: better("values"),
    errors: better("errors"),
  };
}

/** A layer with one output over the products of a query and an item, dimension by dimension. */
function gated(drawing: Drawing): Value {
  const [weights, table] = [drawing.fresh(DIM), drawing.fresh(ITEMS * DIM)];
  const { graph, query } = drawing;
  const isFlat = drawing.rows === 0;
  const each = isFlat
    ? query.node
    : graph.op("ExpandDims", [query.node, drawing.one()], { Tdim: INT32 });
  const multiplied = graph.op("Mul", [each, graph.constant(table, [ITEMS, DIM])]);
  const flat = graph.op("Reshape", [multiplied, drawing.ints(-1, DIM)], { Tshape: INT32 });
  const dense = graph.op("MatMul", [flat, graph.constant(weights, [DIM, 1])], {
    transpose_a: false,
    transpose_b: false,
  });
  const shape = isFlat ? drawing.ints(ITEMS) : drawing.ints(-1, ITEMS);
  const node = graph.op("Reshape", [dense, shape], { Tshape: INT32 });
  const weighed = table.map((value, at) => value * weights[at % DIM]!);
  return { node, ...products(query, transposed(weighed, DIM), ITEMS) };
}

function distance(drawing: Drawing, spelling: number): Value {
  const table = drawing.fresh(ITEMS * DIM);
  const { graph, query } = drawing;
  const stored = graph.constant(table, [ITEMS, DIM]);
  const each =
    drawing.rows === 0
      ? query.node
      : graph.op("ExpandDims", [query.node, drawing.one()], { Tdim: INT32 });
  const difference = graph.op("Sub", [each, stored]);
  const squares = [
    () => graph.op("SquaredDifference", [stored, each]),
    () => graph.op("Square", [difference]),
    () => graph.op("Pow", [difference, graph.constant([2], [])]),
  ][spelling % 3]!();
  const last = graph.constant([-1], [], "int32");
  const sum = graph.op("Sum", [squares, last], { Tidx: INT32, keep_dims: false });
  const values = new Float64Array(drawing.queries * ITEMS);
  for (let at = 0; at < values.length; at += 1) {
    for (let d = 0; d < DIM; d += 1) {
      const own = query.values[Math.floor(at / ITEMS) * DIM + d]!;
      values[at]! += (own - table[(at % ITEMS) * DIM + d]!) ** 2;
    }
  }
  // A search computes them of the products, which may be larger.
  const errors = values.map((value) => EPSILON * (value + 16));
  const found = { node: sum, rows: drawing.queries, width: ITEMS, values, errors };
  return drawing.unary("Neg", found, (value) => -value);
}

/** One step behind a product; `undefined`: it does not fit. */
type Step = (drawing: Drawing, scores: Value, drawn: Drawn) => Value | undefined;

/** What decides which operation a step makes, and with which operand. */
interface Drawn {
  readonly a: number;
  readonly b: number;
}

const unarySteps: readonly (readonly [string, (value: number) => number])[] = [
  ["Neg", (value) => -value],
  ["Sigmoid", sigmoid],
  ["Tanh", Math.tanh],
  ["Relu", (value) => Math.max(0, value)],
  ["Exp", Math.exp],
  ["Softplus", (value) => Math.log1p(Math.exp(value))],
  ["Square", (value) => value * value],
  ["Abs", Math.abs],
  ["Elu", (value) => (value < 0 ? Math.expm1(value) : value)],
  ["Softsign", (value) => value / (1 + Math.abs(value))],
  ["Log1p", Math.log1p],
  ["Sqrt", Math.sqrt],
  ["Log", Math.log],
  ["Reciprocal", (value) => 1 / value],
  ["Rsqrt", (value) => 1 / Math.sqrt(value)],
  ["Relu6", (value) => Math.min(6, Math.max(0, value))],
  ["Floor", Math.floor],
  ["Identity", (value) => value],
  ["Erf", erf],
  ["Cos", Math.cos],
];
const EXACT = new Set(["Neg", "Relu", "Relu6", "Abs", "Floor", "Identity"]);

/** By numerical integration. */
function erf(value: number): number {
  if (Math.abs(value) > 6) return Math.sign(value);
  const parts = 2000;
  const width = value / parts;
  let sum = 0;
  for (let at = 0; at < parts; at += 1) sum += Math.exp(-(((at + 0.5) * width) ** 2)) * width;
  return (2 / Math.sqrt(Math.PI)) * sum;
}

const SCALARS = [2, 0.5, 3, -1, 0.25, -3, 1, 0, 8];
const binarySteps: readonly (readonly [string, (a: number, b: number) => number])[] = [
  ["AddV2", plus],
  ["Mul", times],
  ["Sub", minus],
  ["AddV2", plus],
  ["RealDiv", over],
  ["Maximum", Math.max],
  ["Minimum", Math.min],
  // Whether a large exponent is even, float32 does not know as float64 does.
  ["Pow", (a, b) => (a < 0 && Math.abs(b) > 2 ** 20 ? NaN : a ** b)],
];

/** A softmax, or its logarithm, of each query's scores. */
function softmax(drawing: Drawing, scores: Value, isLog: boolean): Value {
  const { values, errors } = scores;
  const [found, off] = [new Float64Array(values.length), new Float64Array(values.length)];
  const { width } = scores;
  for (let first = 0; first < values.length; first += width) {
    const own = values.subarray(first, first + width);
    const best = Math.max(...own);
    const sum = own.reduce((total, value) => total + Math.exp(value - best), 0);
    const most = Math.max(...errors.subarray(first, first + width));
    for (let at = first; at < first + width; at += 1) {
      const log = values[at]! - best - Math.log(sum);
      found[at] = isLog ? log : Math.exp(log);
      const error = errors[at]! + most + EPSILON * (2 + Math.abs(Number.isFinite(log) ? log : 0));
      off[at] = isLog ? error : found[at]! * error + 1.2e-38;
    }
  }
  const node = drawing.graph.op(isLog ? "LogSoftmax" : "Softmax", [scores.node]);
  return { ...scores, node, values: found, errors: off };
}

/** A number of each query: the largest score, their sum or their mean. */
function reduced(drawing: Drawing, scores: Value, kind: number): Value {
  const op = ["Max", "Sum", "Mean", "Min"][kind % 4]!;
  const last = drawing.graph.constant([-1], [], "int32");
  const node = drawing.graph.op(op, [scores.node, last], { Tidx: INT32, keep_dims: true });
  const { rows, width } = scores;
  const [values, errors] = [new Float64Array(rows), new Float64Array(rows)];
  for (let row = 0; row < rows; row += 1) {
    const own = scores.values.subarray(row * width, (row + 1) * width);
    const off = scores.errors.subarray(row * width, (row + 1) * width);
    const isExtreme = op === "Max" || op === "Min";
    const sum = own.reduce(plus, 0);
    const size = own.reduce((total, value) => total + Math.abs(value), 0);
    const share = op === "Mean" ? width : 1;
    values[row] = isExtreme ? (op === "Max" ? Math.max(...own) : Math.min(...own)) : sum / share;
    errors[row] = isExtreme ? Math.max(...off) : (off.reduce(plus, 0) + EPSILON * size) / share;
  }
  return { node, rows, width: 1, values, errors };
}

/** Which items are of a genre, or of any other: of one that each query asks for, or of a stored one. */
interface Mask {
  readonly node: string;
  readonly words: string;
  /** Whether the score at this place is in it. */
  readonly has: (at: number) => boolean;
}

function maskOf(drawing: Drawing, { width, rows }: Value, a: number): Mask {
  const { graph } = drawing;
  const genre = Array.from({ length: width }, (_, at) => at % 3);
  const stored = graph.constant(genre, [width], "int32");
  const isOfRequest = a % 3 === 0 && drawing.rows !== 0;
  const wanted = Array.from({ length: rows }, (_, row) => (isOfRequest ? (row + a) % 4 : a % 3));
  let asked: string;
  if (isOfRequest) {
    const name = `genre_${drawing.inputs.size}`;
    asked = graph.input(name, "int32", [-1, 1]);
    drawing.inputs.set(name, { dtype: "int32", shape: [rows, 1], data: Int32Array.from(wanted) });
  } else asked = graph.constant([wanted[0]!], [], "int32");
  const isOpposite = (a >> 2) % 2 === 1;
  const op = isOpposite ? "NotEqual" : "Equal";
  const has = (at: number): boolean =>
    (genre[at % width] === wanted[Math.floor(at / width)]) !== isOpposite;
  if (isOfRequest && (a >> 3) % 2 === 1) {
    const flags = Array.from({ length: 4 * width }, (_, at) =>
      Number((genre[at % width] === Math.floor(at / width)) !== isOpposite),
    );
    const group = graph.op("Squeeze", [asked], { squeeze_dims: [1], T: INT32 });
    const operands = [graph.constant(flags, [4, width]), group, drawing.zero()];
    const types = { Tparams: FLOAT, Tindices: INT32, Taxis: INT32, batch_dims: 0 } as const;
    const picked = graph.op("GatherV2", operands, types);
    return {
      node: graph.op("Greater", [picked, graph.constant([0], [])]),
      words: `row of genre ${isOpposite ? "≠" : "="} asked`,
      has,
    };
  }
  return {
    node: graph.op(op, [stored, asked], { T: INT32, incompatible_shape_error: true }),
    words: `genre ${isOpposite ? "≠" : "="} ${isOfRequest ? "asked" : "c"}`,
    has,
  };
}

/** `where(mask, scores, number)`. */
function masked(drawing: Drawing, scores: Value, { a, b }: Drawn): Value {
  const mask = maskOf(drawing, scores, a);
  const number = [-Infinity, -1e9, 0, -2, 0.5][b % 5]!;
  drawing.words.push(`where(${mask.words}, …, ${number})`);
  const { graph } = drawing;
  const node = graph.op("SelectV2", [mask.node, scores.node, graph.constant([number], [])]);
  const values = scores.values.map((value, at) => (mask.has(at) ? value : number));
  const errors = scores.errors.map((error, at) => (mask.has(at) ? error : 0));
  return { ...scores, node, values, errors };
}

/** Something added to the scores of a mask, or a factor of them: of the mask as flags, or as a choice. */
function boosted(drawing: Drawing, scores: Value, { a, b }: Drawn): Value {
  const mask = maskOf(drawing, scores, a);
  const { graph } = drawing;
  const number = [0.5, 2, -1, 1.25, 0][b % 5]!;
  const isFactor = (b >> 3) % 2 === 1;
  const [op, neutral, compute] = isFactor
    ? (["Mul", 1, times] as const)
    : (["AddV2", 0, plus] as const);
  // Other items may have a number of their own.
  const none = (b >> 4) % 2 === 1 ? 0.75 : neutral;
  const written = graph.constant([number], []);
  const casts = { SrcT: { type: "bool" }, DstT: FLOAT } as const;
  const ways: (() => string)[] = [
    () => {
      const choice = graph.op("SelectV2", [mask.node, written, graph.constant([none], [])]);
      return graph.op(op, [scores.node, choice]);
    },
    () => {
      const own = graph.op(op, [scores.node, written]);
      const others = graph.op(op, [scores.node, graph.constant([none], [])]);
      return graph.op("SelectV2", [mask.node, own, none === neutral ? scores.node : others]);
    },
    () => {
      const flags = graph.op("Cast", [mask.node], casts);
      const change = graph.op("Mul", [flags, graph.constant([number - none], [])]);
      return graph.op(op, [scores.node, graph.op("AddV2", [change, graph.constant([none], [])])]);
    },
  ];
  if (none === 0) ways.push(() => onStock(drawing, { scores, mask, number, casts }));
  const way = Math.floor(a / 12) % ways.length;
  drawing.words.push(`… ${op} ${number} where ${mask.words}, else ${none} (${way})`);
  const change = scores.values.map((_, at) => (mask.has(at) ? number : none));
  const { rows, width } = scores;
  const exactly = { rows, width, values: change, errors: new Float64Array(change.length) };
  return { node: ways[way]!(), ...combined([scores, exactly], compute, false) };
}

/** `scores + cast(mask) * flags * number`, with stored flags that are 1 for all items of the mask. */
function onStock(
  { graph }: Drawing,
  {
    scores,
    mask,
    number,
    casts,
  }: {
    readonly scores: Value;
    readonly mask: Mask;
    readonly number: number;
    readonly casts: { readonly SrcT: { readonly type: "bool" }; readonly DstT: typeof FLOAT };
  },
): string {
  const { width } = scores;
  const every = Array.from({ length: width }, () => 1);
  const stock = graph.constant(every, [width]);
  const both = graph.op("Mul", [graph.op("Cast", [mask.node], casts), stock]);
  const change = graph.op("Mul", [both, graph.constant([number], [])]);
  return graph.op("AddV2", [scores.node, change]);
}

/** What is made of flags, two or three of them: a number for each item. */
const JOININGS = [
  ["AddV2", plus],
  ["Maximum", Math.max],
  ["Minimum", Math.min],
  ["Mul", times],
] as const;

/** Flags that are joined before they change scores, or hide some. */
function flagged(drawing: Drawing, scores: Value, { a, b }: Drawn): Value {
  const { graph } = drawing;
  const { rows, width } = scores;
  const [joining, compute] = JOININGS[b % 4]!;
  const masks = [a, a >> 3, a >> 5].slice(0, 2 + ((b >> 2) % 2)).map((each) => {
    return maskOf(drawing, scores, each);
  });
  const casts = { SrcT: { type: "bool" }, DstT: FLOAT } as const;
  const flags = masks.map((mask) => graph.op("Cast", [mask.node], casts));
  const joined = flags.reduce((one, other) => graph.op(joining, [one, other]));
  const totals = scores.values.map((_, at) => {
    return masks.map((mask) => Number(mask.has(at))).reduce((one, other) => compute(one, other));
  });
  const words = masks.map((mask) => mask.words).join(` ${joining} `);
  const number = [0.5, -1, 3, -1e9][(b >> 3) % 4]!;
  if ((b >> 5) % 2 === 0) {
    drawing.words.push(`… + ${number} * (${words})`);
    const change = graph.op("Mul", [joined, graph.constant([number], [])]);
    const exactly = {
      rows,
      width,
      values: totals.map((total) => total * number),
      errors: new Float64Array(totals.length),
    };
    const node = graph.op("AddV2", [scores.node, change]);
    return { node, ...combined([scores, exactly], plus, false) };
  }
  const bound = [0, 0.5, 1][(b >> 6) % 3]!;
  drawing.words.push(`${number} where (${words}) > ${bound}, else …`);
  const isChosen = graph.op("Greater", [joined, graph.constant([bound], [])]);
  const node = graph.op("SelectV2", [isChosen, graph.constant([number], []), scores.node]);
  const values = scores.values.map((value, at) => (totals[at]! > bound ? number : value));
  const errors = scores.errors.map((error, at) => (totals[at]! > bound ? 0 : error));
  return { ...scores, node, values, errors };
}

/** `where(mask, scores, where(other, scores + change, number))`, or with the choices the other way round. */
function choiceInChoice(drawing: Drawing, scores: Value, { a, b }: Drawn): Value {
  const { graph } = drawing;
  const [outer, inner] = [maskOf(drawing, scores, a), maskOf(drawing, scores, a >> 3)];
  const change = [0.5, -2, -1e9][b % 3]!;
  const number = [-Infinity, -1, 0.25][(b >> 2) % 3]!;
  const isTurned = (b >> 4) % 2 === 1;
  const changed = graph.op("AddV2", [scores.node, graph.constant([change], [])]);
  const rest = graph.op("SelectV2", [inner.node, changed, graph.constant([number], [])]);
  const choices = isTurned ? [rest, scores.node] : [scores.node, rest];
  const node = graph.op("SelectV2", [outer.node, ...choices]);
  drawing.words.push(
    `where(${outer.words}, …, where(${inner.words}, … + ${change}, ${number}))${isTurned ? ", turned" : ""}`,
  );
  const isKept = (at: number): boolean => outer.has(at) !== isTurned;
  const values = scores.values.map((value, at) => {
    if (isKept(at)) return value;
    return inner.has(at) ? value + change : number;
  });
  const errors = scores.errors.map((error, at) => {
    if (isKept(at)) return error;
    return inner.has(at) ? error + roundingOf(values[at]!) : 0;
  });
  return { ...scores, node, values, errors };
}

/** `scores * flags - (1 - flags) * number`, or with the sign and the flags of the others. */
function blended(drawing: Drawing, scores: Value, { a, b }: Drawn): Value {
  const mask = maskOf(drawing, scores, a);
  const { graph } = drawing;
  const number = [1e9, 4, -1, 0.5][b % 4]!;
  const isOpposite = (b >> 2) % 2 === 1;
  const sign = (b >> 3) % 2 === 1 ? 1 : -1;
  const flags = graph.op("Cast", [mask.node], { SrcT: { type: "bool" }, DstT: FLOAT });
  const others = graph.op("Sub", [graph.constant([1], []), flags]);
  const [own, rest] = isOpposite ? [others, flags] : [flags, others];
  const kept = graph.op("Mul", [scores.node, own]);
  const left = graph.op("Mul", [rest, graph.constant([number], [])]);
  const node = graph.op(sign > 0 ? "AddV2" : "Sub", [kept, left]);
  drawing.words.push(`… * flags ${sign > 0 ? "+" : "-"} others * ${number}, ${mask.words}`);
  const isKept = (at: number): boolean => mask.has(at) !== isOpposite;
  const values = scores.values.map((value, at) => {
    if (isKept(at)) return value;
    // An infinity times 0 is no number.
    return Number.isFinite(value) ? sign * number : NaN;
  });
  const errors = scores.errors.map((error, at) => (isKept(at) ? error : 0));
  return { ...scores, node, values, errors };
}

/** `1 / (1 + relu(scores))`, or of the scores themselves. */
function similar(drawing: Drawing, scores: Value, { a, b }: Drawn): Value {
  const bounded =
    a % 2 === 0 ? drawing.unary("Relu", scores, (value) => Math.max(0, value)) : scores;
  const sum = drawing.binary("AddV2", [drawing.scalar(1), bounded], plus);
  drawing.words.push(a % 2 === 0 ? "1 / (1 + relu)" : "1 / (1 + …)");
  return b % 2 === 0
    ? drawing.binary("RealDiv", [drawing.scalar(1), sum], over)
    : drawing.unary("Reciprocal", sum, (value) => 1 / value);
}

/** `where(is_known[:, None], scores, popularity)`, or a function of the scores instead. */
function chosen(drawing: Drawing, scores: Value, { a, b }: Drawn): Value | undefined {
  if (drawing.rows === 0) return undefined;
  const { graph } = drawing;
  const { rows, width } = scores;
  const known = Array.from({ length: rows }, (_, row) => (row + a) % 2);
  const name = `known_${drawing.inputs.size}`;
  drawing.inputs.set(name, { dtype: "int32", shape: [rows, 1], data: Int32Array.from(known) });
  const asked = graph.input(name, "int32", [-1, 1]);
  const isKnown = graph.op("Greater", [asked, graph.constant([0], [], "int32")], { T: INT32 });
  const other =
    b % 3 === 0 ? drawing.unary("Neg", scores, (value) => -value) : drawing.vector(width, b);
  drawing.words.push(`where(known, …, ${b % 3 === 0 ? "its opposite" : `vector ${b % 10}`})`);
  const isTurned = (a >> 1) % 2 === 1;
  const operands = isTurned ? [other, scores] : [scores, other];
  const pick = (key: "values" | "errors"): Float64Array =>
    Float64Array.from({ length: rows * width }, (_, at) => {
      const isOwn = (known[Math.floor(at / width)] === 1) !== isTurned;
      return isOwn ? scores[key][at]! : other[key][placeIn(other, at, width)]!;
    });
  const node = graph.op("SelectV2", [isKnown, ...operands.map((operand) => operand.node)]);
  return { node, rows, width, values: pick("values"), errors: pick("errors") };
}

/** Items that a list of the request names, `[queries, 3]`, by one_hot: they lose much, or get another score. */
function listed(drawing: Drawing, scores: Value, { a, b }: Drawn): Value {
  const { graph } = drawing;
  const { rows, width } = scores;
  const isFlat = drawing.rows === 0;
  const seen = Array.from({ length: rows * 3 }, (_, at) => (at * 7 + a) % width);
  const name = `seen_${drawing.inputs.size}`;
  const node = graph.input(name, "int32", isFlat ? [-1] : [-1, 3]);
  const shape = isFlat ? [3] : [rows, 3];
  drawing.inputs.set(name, { dtype: "int32", shape, data: Int32Array.from(seen) });
  const depth = graph.constant([width], [], "int32");
  const hot = graph.op("OneHot", [node, depth, graph.constant([1], []), graph.constant([0], [])], {
    TI: INT32,
    axis: -1,
  });
  const axis = isFlat ? drawing.zero() : drawing.one();
  const flags = graph.op(a % 2 === 0 ? "Max" : "Sum", [hot, axis], {
    Tidx: INT32,
    keep_dims: false,
  });
  const times = (at: number): number => {
    const own = seen.slice(Math.floor(at / width) * 3, Math.floor(at / width) * 3 + 3);
    const count = own.filter((row) => row === at % width).length;
    return a % 2 === 0 ? Math.min(1, count) : count;
  };
  const penalty = [-1e9, -4, -100, 2][b % 4]!;
  if (b % 2 === 0) {
    drawing.words.push(`${penalty} for listed items`);
    const added = graph.op("Mul", [flags, graph.constant([penalty], [])]);
    const values = scores.values.map((value, at) => value + times(at) * penalty);
    const errors = scores.errors.map(
      (error, at) => error + (times(at) > 0 ? roundingOf(values[at]!) : 0),
    );
    return { ...scores, node: graph.op("AddV2", [scores.node, added]), values, errors };
  }
  drawing.words.push(`${penalty} instead, for listed items`);
  const mask = graph.op("Greater", [flags, graph.constant([0], [])]);
  const values = scores.values.map((value, at) => (times(at) > 0 ? penalty : value));
  const errors = scores.errors.map((error, at) => (times(at) > 0 ? 0 : error));
  const selected = graph.op("SelectV2", [mask, graph.constant([penalty], []), scores.node]);
  return { ...scores, node: selected, values, errors };
}

/** A number instead of scores that are below another one. */
function bounded(drawing: Drawing, scores: Value, { a, b }: Drawn): Value {
  const { graph } = drawing;
  const [bound, number] = [[0, 0.5, -1][a % 3]!, [-9, 0, -Infinity, 1][b % 4]!];
  drawing.words.push(`where(scores > ${bound}, scores, ${number})`);
  const mask = graph.op("Greater", [scores.node, graph.constant([bound], [])]);
  const node = graph.op("SelectV2", [mask, scores.node, graph.constant([number], [])]);
  const values = scores.values.map((value) => (value > bound ? value : number));
  const errors = scores.errors.map((error, at) => {
    const value = scores.values[at]!;
    const isClear = difference(value, bound) > error;
    return isClear ? (value > bound ? error : 0) : Infinity;
  });
  return { ...scores, node, values, errors };
}

/** `scores[:, first:end]`. */
function sliced(drawing: Drawing, scores: Value, { a, b }: Drawn): Value | undefined {
  const [first, end] = [a % 3, scores.width - (b % 3)];
  if (end - first < K + 3) return undefined;
  const { graph } = drawing;
  const flat = drawing.rows === 0;
  const at = (...of: number[]): string => drawing.ints(...(flat ? of.slice(1) : of));
  const node = graph.op("StridedSlice", [scores.node, at(0, first), at(0, end), at(1, 1)], {
    Index: INT32,
    begin_mask: flat ? 0 : 1,
    end_mask: flat ? 0 : 1,
    ellipsis_mask: 0,
    new_axis_mask: 0,
    shrink_axis_mask: 0,
  });
  drawing.words.push(`[:, ${first}:${end}]`);
  return moved(scores, node, { width: end - first, of: (column) => column + first });
}

/** Scores whose columns are others' columns. */
function moved(
  scores: Value,
  node: string,
  { width, of }: { readonly width: number; readonly of: (column: number) => number },
): Value {
  const pick = (from: Float64Array): Float64Array =>
    Float64Array.from({ length: scores.rows * width }, (_, at) => {
      return from[Math.floor(at / width) * scores.width + of(at % width)]!;
    });
  const { rows, values, errors } = scores;
  return { node, rows, width, values: pick(values), errors: pick(errors) };
}

/** The columns from the last to the first, by ReverseV2 or by GatherV2. */
function reversed(drawing: Drawing, scores: Value, { a }: Drawn): Value {
  const { graph } = drawing;
  const axis = drawing.rows === 0 ? 0 : 1;
  const { width } = scores;
  const rows = Array.from({ length: width }, (_, at) => width - 1 - at);
  drawing.words.push("reversed");
  const node =
    a % 2 === 0
      ? graph.op("ReverseV2", [scores.node, drawing.ints(axis)], { Tidx: INT32 })
      : graph.op(
          "GatherV2",
          [scores.node, drawing.ints(...rows), graph.constant([axis], [], "int32")],
          {
            Tparams: FLOAT,
            Tindices: INT32,
            Taxis: INT32,
            batch_dims: 0,
          },
        );
  return moved(scores, node, { width, of: (column) => width - 1 - column });
}

/** Operations that leave the scores as they are. */
function rearranged(drawing: Drawing, scores: Value, { a }: Drawn): Value {
  const { graph } = drawing;
  const flat = drawing.rows === 0;
  const { width } = scores;
  const wide = graph.op("ExpandDims", [scores.node, drawing.zero()], { Tdim: INT32 });
  const ways: readonly (() => string)[] = [
    () => graph.op("Squeeze", [wide], { squeeze_dims: [0] }),
    () =>
      graph.op("Reshape", [scores.node, flat ? drawing.ints(width) : drawing.ints(-1, width)], {
        Tshape: INT32,
      }),
    () => {
      if (flat) return graph.op("Identity", [scores.node]);
      const turn = (node: string): string =>
        graph.op("Transpose", [node, drawing.ints(1, 0)], { Tperm: INT32 });
      return turn(turn(scores.node));
    },
    () => graph.op("Sum", [wide, drawing.zero()], { Tidx: INT32, keep_dims: false }),
    () => graph.op("Max", [wide, drawing.zero()], { Tidx: INT32, keep_dims: false }),
  ];
  drawing.words.push(`rearranged ${a % ways.length}`);
  return { ...scores, node: ways[a % ways.length]!() };
}

const byFunction: Step = (drawing, scores, { a }) => {
  const [op, compute] = unarySteps[a % unarySteps.length]!;
  drawing.words.push(op);
  return drawing.unary(op, scores, compute);
};

const withScalar: Step = (drawing, scores, { a, b }) => {
  const number = SCALARS[b % SCALARS.length]!;
  return withOperand(drawing, [scores, drawing.scalar(number)], { a, words: String(number) });
};

const withVector: Step = (drawing, scores, { a, b }) => {
  const vector = drawing.vector(scores.width, b);
  return withOperand(drawing, [scores, vector], { a, words: `vector ${b % 10}` });
};

const withColumn: Step = (drawing, scores, { a, b }) =>
  withOperand(drawing, [scores, drawing.column(b)], { a, words: `column ${b % 3}` });

const withSoftmax: Step = (drawing, scores, { a }) => {
  drawing.words.push(a % 2 === 0 ? "softmax" : "log softmax");
  return softmax(drawing, scores, a % 2 === 1);
};

const withItself: Step = (drawing, scores, { a, b }) => {
  const [op, compute] = unarySteps[b % unarySteps.length]!;
  drawing.words.push(`with its own ${op}`);
  const other = drawing.unary(op, scores, compute);
  return withOperand(drawing, [scores, other], { a, words: "it" });
};

const withReduced: Step = (drawing, scores, { a, b }) => {
  drawing.words.push(`with its ${["max", "sum", "mean", "min"][b % 4]!}`);
  return withOperand(drawing, [scores, reduced(drawing, scores, b)], { a, words: "it" });
};

/** By how often they are drawn: what a search can be made of more often than what none can. */
const STEPS: readonly Step[] = Object.entries({
  3: [byFunction, withScalar],
  2: [withVector, withColumn, masked, listed, boosted, blended, flagged, choiceInChoice],
  1: [withSoftmax, similar, chosen, sliced, bounded, rearranged, withItself, withReduced, reversed],
} satisfies Record<number, readonly Step[]>)
  .toReversed()
  .flatMap(([times, steps]) => Array.from({ length: Number(times) }, () => steps).flat());

function withOperand(
  drawing: Drawing,
  [scores, other]: readonly [Value, Value],
  { a, words }: { readonly a: number; readonly words: string },
): Value {
  const [op, compute] = binarySteps[a % binarySteps.length]!;
  const isTurned = Math.floor(a / binarySteps.length) % 2 === 1;
  drawing.words.push(isTurned ? `${words} ${op} …` : `… ${op} ${words}`);
  return drawing.binary(op, isTurned ? [other, scores] : [scores, other], compute);
}

/** Whether float32 has these numbers well enough to say anything about their order. */
function isSound({ values, errors }: Numbers): boolean {
  return values.every((value, at) => {
    if (value === -Infinity) return errors[at] === 0;
    const size = Math.max(1, Math.abs(value));
    return size < 1e12 && errors[at]! <= ERROR_MAX * size;
  });
}

/** Makes the scores and writes their version; `undefined`: nothing can be said about them. */
export function writeRandomScores(
  { form, source, steps, rank }: RandomScores,
  directory: string,
): ExpectedScores | undefined {
  const drawing = new Drawing(form);
  const [words, make] = SOURCES[source % SOURCES.length]!;
  drawing.words.push(words);
  let scores = make(drawing);
  for (const { op, a, b } of steps) {
    const next = STEPS[op % STEPS.length]!(drawing, scores, { a, b });
    if (next === undefined) continue;
    if (!isSound(next)) return undefined;
    scores = next;
  }
  const { graph } = drawing;
  const ids = Array.from({ length: scores.width }, (_, row) => `item ${row}`);
  const found = graph.op("TopKV2", [scores.node, graph.constant([K], [], "int32")]);
  const types = { Tparams: { type: "string" }, Tindices: INT32, Taxis: INT32 } as const;
  const gathered = graph.op("GatherV2", [graph.strings(ids), `${found}:1`, drawing.zero()], types);
  const shape = drawing.rows === 0 ? [K] : [-1, K];
  graph.output("scores", rank % 2 === 0 ? found : graph.op("Neg", [found]), {
    dtype: "float32",
    shape,
  });
  graph.output("ids", gathered, { dtype: "string", shape });
  graph.write(directory);
  const sign = rank % 2 === 0 ? 1 : -1;
  return {
    inputs: drawing.inputs,
    text: drawing.words.join("; "),
    faultOf: (answer) => faultOf(scores, answer, sign),
  };
}

/** What is wrong with an answer: ids that are not the best, scores that are not theirs, ties in another order. */
function faultOf(
  scores: Numbers,
  answer: ReadonlyMap<string, Tensor>,
  sign: number,
): string | undefined {
  const [ids, found] = [answer.get("ids"), answer.get("scores")];
  if (ids?.dtype !== "string" || found?.dtype !== "float32") return "no ids, or no scores";
  if (found.data.length !== scores.rows * K) return `${found.data.length} scores`;
  const rows = ids.data.toText().map((text) => Number(text.slice("item ".length)));
  for (let query = 0; query < scores.rows; query += 1) {
    const listed = rows.slice(query * K, (query + 1) * K);
    const told = Array.from(
      found.data.subarray(query * K, (query + 1) * K),
      (score) => sign * score,
    );
    const fault = listFault(scores, query, { listed, told });
    if (fault !== undefined) return `query ${query}: ${fault}`;
  }
  return undefined;
}

function listFault(
  { width, values, errors }: Numbers,
  query: number,
  { listed, told }: { readonly listed: readonly number[]; readonly told: readonly number[] },
): string | undefined {
  const own = values.subarray(query * width, (query + 1) * width);
  const off = errors.subarray(query * width, (query + 1) * width);
  const best = Array.from(own).toSorted((a, b) => b - a);
  if (new Set(listed).size < listed.length) return `an id twice: ${listed.join(", ")}`;
  for (const [rank, row] of listed.entries()) {
    const value = own[row];
    if (value === undefined) return `there is no item ${row}`;
    const bound =
      2 * off[row]! + EPSILON * Math.max(1e-6, Math.abs(Number.isFinite(value) ? value : 0));
    if (!(difference(told[rank]!, value) <= bound)) {
      return `item ${row} has ${told[rank]}, not ${value} ± ${bound}`;
    }
    // Another item may be there only if the two cannot be told apart.
    const apart = difference(best[rank]!, value);
    if (!(apart <= bound + 2 * Math.max(...off))) {
      return `place ${rank} has item ${row} with ${value}, not one with ${best[rank]}`;
    }
  }
  return tieFault(own, off, listed);
}

/** Items whose equal scores are exact go by row, and none is left out for a later one. */
function tieFault(
  own: Float64Array,
  off: Float64Array,
  listed: readonly number[],
): string | undefined {
  const isTied = (a: number, b: number): boolean =>
    own[a] === own[b] && off[a] === 0 && off[b] === 0;
  for (const [rank, row] of listed.entries()) {
    const after = listed[rank + 1];
    if (after !== undefined && isTied(row, after) && after < row) {
      return `items ${row} and ${after} are equal, and not in order`;
    }
    for (let earlier = 0; earlier < row; earlier += 1) {
      if (isTied(earlier, row) && !listed.includes(earlier)) {
        return `item ${row} is there, and ${earlier}, its equal before it, is not`;
      }
    }
  }
  return undefined;
}
