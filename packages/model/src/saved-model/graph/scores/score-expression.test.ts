// Which scores become a search: those of an export with one signature per spelling (what TensorFlow
// answers for each is held against in test/oracle.test.ts), and graphs made to be hard to follow.

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import {
  type CandidateTable,
  type ModelProgram,
  ProtobufWriter,
  type SignatureProgram,
  type Step,
  type TopKStep,
  WinnowError,
} from "@winnow/core";
import { describe, expect, test } from "vitest";
import { openModelVersion } from "../../../model-directory.ts";
import { temporaryDirectory } from "../../../../../../test/temporary-directory.ts";

const EXPORT = path.resolve(
  import.meta.dirname,
  "../../../../../../test/data/savedmodels/score_expressions/1",
);

function programOf(directory: string): ModelProgram {
  const version = openModelVersion(directory);
  version.close();
  return version.program;
}

const program = programOf(EXPORT);
const stepsOf = (name: string): readonly Step[] =>
  program.signatures.find((signature) => signature.name === name)!.steps;
const names = program.signatures
  .filter(({ methodName }) => methodName !== "")
  .map(({ name }) => name);

describe("scores before a top-k", () => {
  // Some were recorded under names that say otherwise.
  test.each(names)("%s are searched", (name) => {
    const search = stepsOf(name).find((step) => step.kind === "topK");

    const table = program.tables[search?.table ?? -1];
    expect(table).toMatchObject({ kind: "candidate", rows: 40, idDtype: "string" });
  });

  test("that are spelled otherwise search one table", () => {
    const spellings = ["einsum", "tensordot", "swapped", "multiply_sum", "batched", "matvec"];
    const tables = [...spellings, "temperature", "variable_temperature", "tanh"].flatMap((name) =>
      stepsOf(name).flatMap((step) => (step.kind === "topK" ? [step.table] : [])),
    );

    expect(new Set(tables).size).toBe(1);
    expect(tables).toHaveLength(9);
  });

  test.each([
    ["bias", 9, ["items", "ids", "bias"]],
    ["debiased", 9, ["items", "ids", "bias"]],
    ["two_biases", 10, ["items", "ids", "bias", "bias_column"]],
    ["logits", 9, ["kernel", "ids", "bias"]],
    ["logits_without_bias", 8, ["kernel", "ids"]],
    ["cosine", 8, ["items", "ids"]],
    ["bias_of_constant", 9, ["items", "ids", "Const"]],
  ])("%s: rows of %i values, each tensor with its own checksum", (name, dim, tensors) => {
    const search = stepsOf(name).find((step) => step.kind === "topK")!;
    const { sources, ...table } = program.tables[search.table]!;

    expect(table.dim).toBe(dim);
    const keys = sources.map(({ tensor }) => tensor.replace("/.ATTRIBUTES/VARIABLE_VALUE", ""));
    expect(keys.map((key) => key.replace(/^.*\//, ""))).toEqual(tensors);
    expect(sources.every(({ checksum }) => checksum !== undefined)).toBe(true);
  });

  test("operations between the product and the top-k are functions of the search", () => {
    const behind = (name: string): string[] => {
      const steps = stepsOf(name);
      const at = steps.findIndex(({ kind }) => kind === "topK");
      expect(at).toBe(steps.length - 1);
      return ((steps[at] as TopKStep).functions ?? []).map(({ op }) => op);
    };

    expect(behind("temperature")).toEqual(["Div"]);
    expect(behind("tanh")).toEqual(["Mul", "Tanh"]);
    expect(behind("bias_before_temperature")).toEqual(["Div", "Add"]);
    expect(behind("bias_after_temperature")).toEqual([]);
    expect(behind("logits_sigmoid")).toEqual(["Sigmoid"]);
    expect(behind("negative_temperature")).toEqual([]);
    expect(behind("relu")).toEqual(["Sub", "Maximum"]);
    expect(behind("dense_softmax")).toEqual(["Softmax"]);
  });
});

describe("the best of several query vectors", () => {
  const interests = programOf(path.resolve(EXPORT, "../../several_interests/1"));
  const searchOf = (name: string): TopKStep | undefined => {
    const { steps } = interests.signatures.find((signature) => signature.name === name)!;
    return steps.find((step) => step.kind === "topK");
  };
  const called = interests.signatures.filter(({ methodName }) => methodName !== "");

  const isOfBest = (name: string): boolean => !/^(dense_.*|mean|sum)$/.test(name);

  test.each(called.map(({ name }) => name).filter(isOfBest))("is searched: %s", (name) => {
    const search = searchOf(name);

    expect(search?.vectors).toBe(3);
    expect(search?.rows).toBeDefined();
    expect(interests.tables[search!.table]).toMatchObject({ kind: "candidate", rows: 40 });
  });

  test.each(["mean", "sum"])("is one vector where all count alike: %s", (name) => {
    expect(searchOf(name)).toBeDefined();
    expect(searchOf(name)?.vectors).toBeUndefined();
  });

  test.each(["dense_least", "dense_falling"])("is not the worst: %s", (name) => {
    expect(searchOf(name)).toBeUndefined();
  });
});

describe("distances", () => {
  const distances = programOf(path.resolve(EXPORT, "../../distances/1"));
  const searchOf = (name: string): TopKStep | undefined => {
    const { steps } = distances.signatures.find((signature) => signature.name === name)!;
    return steps.find((step) => step.kind === "topK");
  };
  const called = distances.signatures.filter(({ methodName }) => methodName !== "");
  const behind = (name: string): string[] => (searchOf(name)?.functions ?? []).map(({ op }) => op);

  test.each(called.map(({ name }) => name).filter((name) => !name.startsWith("dense_")))(
    "are searched: %s",
    (name) => {
      const table = distances.tables[searchOf(name)?.table ?? -1];

      expect(table).toMatchObject({ kind: "candidate", rows: 40 });
    },
  );

  test.each(called.map(({ name }) => name).filter((name) => name.startsWith("dense_")))(
    "of other kinds are not: %s",
    (name) => {
      expect(searchOf(name)).toBeUndefined();
    },
  );

  test("have the squares of items as one dimension more, and those of queries behind the search", () => {
    expect(distances.tables[searchOf("halved")!.table]!.dim).toBe(9);
    expect(distances.tables[searchOf("biased")!.table]!.dim).toBe(10);
    const [halved, biased] = ["halved", "biased"].map((name) => searchOf(name)!.table);
    expect(distances.tables[halved!]).toMatchObject({ added: 1 });
    expect(distances.tables[biased!]).toMatchObject({ added: 2 });
    expect(behind("halved")).toEqual([]);
    expect(behind("expanded")).toEqual(["Add"]);
    expect(behind("serving_default")).toEqual(["Sub", "Minimum", "Mul", "Mul"]);
    expect(searchOf("halved")!.table).toBe(searchOf("norm")!.table);
  });

  test("that grow with the score are searched by the opposite query", () => {
    expect(behind("farthest")[0]).toBe("Mul");
    expect(behind("euclidean_of_expanded").at(-2)).toBe("Sqrt");
  });
});

describe("hidden items", () => {
  const hidden = programOf(path.resolve(EXPORT, "../../hidden_items/1"));
  const called = hidden.signatures.filter(({ methodName }) => methodName !== "");
  const searchOf = (name: string): TopKStep | undefined =>
    called
      .find((signature) => signature.name === name)!
      .steps.find((step): step is TopKStep => step.kind === "topK");

  test.each(called.map(({ name }) => name))(
    "%s is a search, unless its name says otherwise",
    (name) => {
      expect(searchOf(name) === undefined).toBe(name.startsWith("dense_"));
    },
  );

  test("are masked, and need no value in a row where nothing else is added", () => {
    const dims = ["constant", "subtracted", "logarithm", "serving_default"].map(
      (name) => hidden.tables[searchOf(name)!.table]!.dim,
    );

    expect(dims).toEqual([8, 8, 8, 9]);
    expect(searchOf("of_genre")!.masks![0]!.keeps).toMatchObject({ kind: "and" });
    expect(searchOf("penalty")!.masks).toBeUndefined();
  });

  test("a second column gathered by the rows of a search is no second table", () => {
    const names = hidden.tables.map(({ name, dim }) => `${name} ${dim}`);

    // Items without a bias, with the padding, a penalty, the popularity by views and by genre, and two biases.
    expect(names.map((name) => name.replace(/^\S+ /, ""))).toEqual(["9", "8", "9", "9", "9", "10"]);
  });
});

describe("slices of the candidates", () => {
  const sliced = programOf(path.resolve(EXPORT, "../../sliced_candidates/1"));
  const called = sliced.signatures.filter(({ methodName }) => methodName !== "");

  test("are tables of their rows, with the ids from where they begin", () => {
    const tables = called.map(({ name, steps }) => {
      const search = steps.find((step): step is TopKStep => step.kind === "topK");
      const table = sliced.tables[search?.table ?? -1] as CandidateTable | undefined;
      return `${name}: ${table === undefined ? "" : `${table.rows} rows, ${table.idDtype}`}`;
    });

    expect(tables.toSorted()).toEqual([
      "all_of_it: 40 rows, string",
      "columns: 40 rows, string",
      "dense_every_other: ",
      "half: 39 rows, string",
      "ids_alike: 39 rows, string",
      "in_slices: 34 rows, string",
      "middle: 27 rows, int64",
      "normalised: 39 rows, string",
      "numbers: 38 rows, int64",
      "serving_default: 39 rows, string",
      "without_last: 38 rows, string",
    ]);
  });
});

test("scores of one query alone, without an axis of queries, are searched with its items' ids", () => {
  const oneQuery = programOf(path.resolve(EXPORT, "../../one_query/1"));
  const searches = oneQuery.signatures
    .filter(({ methodName }) => methodName !== "")
    .map(({ steps }) => steps.find((step) => step.kind === "topK")?.table ?? -1);

  expect(searches).toHaveLength(6);
  const tables = searches.map((table) => oneQuery.tables[table]);
  expect(tables.every((table) => table?.kind === "candidate" && table.idDtype === "string")).toBe(
    true,
  );
  expect(oneQuery).not.toHaveProperty("uncutTables");
});

test("items that are not searched are told of, once each, with what stood in the way", () => {
  const { uncutTables = [] } = programOf(path.resolve(EXPORT, "../../distances/1"));
  const held = uncutTables.map(({ tensor, bytes, obstacle }) => {
    return `${tensor}: ${bytes} bytes, ${obstacle.op}`;
  });

  expect(held).toEqual(["items: 1280 bytes, Sum"]);
  const searched = programOf(path.resolve(EXPORT, "../../module_raw_query/1"));
  expect(searched).not.toHaveProperty("uncutTables");
});

test("items in float64, of an unknown number and in a loop are told of", () => {
  const { uncutTables = [] } = programOf(path.resolve(EXPORT, "../../../operations/practice/1"));
  const held = uncutTables.map(({ tensor, bytes }) => `${tensor}: ${bytes} bytes`);

  expect(held.toSorted()).toEqual([
    `items: ${9 * 4 * 4} bytes`,
    `others: ${5 * 4 * 4} bytes`,
    `precise: ${7 * 4 * 8} bytes`,
  ]);
});

test("items in slices of columns are cut, and pooled rows of reference variables are looked up", () => {
  const { tables } = programOf(path.resolve(EXPORT, "../../../operations/columns_in_slices/1"));

  expect(tables.map(({ kind, rows, dim }) => `${kind} [${rows}, ${dim}]`)).toEqual([
    "keyed [20, 8]",
    "candidate [30, 8]",
  ]);
});

const FLOAT = 1;
const INT32 = 3;
const root = temporaryDirectory();

type Write = (value: ProtobufWriter) => unknown;

interface Node {
  readonly name: string;
  readonly op: string;
  readonly inputs?: readonly string[];
  readonly attributes?: Readonly<Record<string, Write>>;
}

const type =
  (number: number): Write =>
  (value) =>
    value.int(6, number);

function constant(name: string, shape: readonly number[], values: ArrayLike<number>): Node {
  const content = Float32Array.from(values);
  const value: Write = (attribute) =>
    attribute.message(8, (tensor) => {
      tensor.int(1, FLOAT).message(2, (dims) => {
        for (const size of shape) dims.message(2, (dim) => dim.int(1, size));
      });
      tensor.bytes(4, new Uint8Array(content.buffer));
    });
  return { name, op: "Const", attributes: { T: type(FLOAT), dtype: type(FLOAT), value } };
}

function integer(name: string, number: number): Node {
  const value: Write = (attribute) =>
    attribute.message(8, (tensor) =>
      tensor
        .int(1, INT32)
        .message(2, () => undefined)
        .int(7, number),
    );
  return { name, op: "Const", attributes: { T: type(INT32), dtype: type(INT32), value } };
}

const operation = (name: string, op: string, ...inputs: readonly string[]): Node => ({
  name,
  op,
  inputs,
  attributes: { T: type(FLOAT) },
});

/** Defines an operation by the types of its outputs: an attribute of the node, or always one. */
function define(list: ProtobufWriter, op: string, outputs: readonly (string | number)[]): void {
  list.message(1, (definition) => {
    definition.text(1, op);
    for (const type of outputs) {
      definition.message(3, (output) =>
        typeof type === "string" ? output.text(4, type) : output.int(3, type),
      );
    }
  });
}

/** The kinds of steps of a graph with the input `x` `[-1, width]`, whose output is the top 2 of `y`. */
function kindsOf(nodes: readonly Node[], width = 2): string[] | string {
  const top: Node = {
    name: "top",
    op: "TopKV2",
    inputs: ["y", "k"],
    attributes: { T: type(FLOAT) },
  };
  const all = [
    { name: "x", op: "Placeholder", attributes: { T: type(FLOAT), dtype: type(FLOAT) } },
    ...nodes,
  ];
  const bytes = new ProtobufWriter()
    .message(2, (meta) => {
      meta.message(1, (info) =>
        info
          .message(2, (list) => {
            for (const op of new Set(all.map((node) => node.op))) define(list, op, ["T"]);
            define(list, "TopKV2", ["T", INT32]);
          })
          .text(4, "serve"),
      );
      meta.message(2, (graph) => {
        for (const { name, op, inputs = [], attributes = {} } of [...all, integer("k", 2), top]) {
          graph.message(1, (node) => {
            node.text(1, name).text(2, op);
            for (const input of inputs) node.text(3, input);
            for (const [key, write] of Object.entries(attributes)) {
              node.entry(5, key, (value) => void write(value));
            }
          });
        }
      });
      meta.entry(5, "serving_default", (signature) => {
        for (const [field, key, tensor] of [
          [1, "x", "x:0"],
          [2, "y", "top:0"],
        ] as const) {
          signature.entry(field, key, (info) =>
            info
              .text(1, tensor)
              .int(2, FLOAT)
              .message(3, (shape) => {
                for (const size of [-1, field === 1 ? width : 2])
                  shape.message(2, (dim) => dim.int(1, size));
              }),
          );
        }
        signature.text(3, "tensorflow/serving/predict");
      });
    })
    .finish();
  mkdirSync(path.join(root, "1"), { recursive: true });
  writeFileSync(path.join(root, "1", "saved_model.pb"), bytes);
  try {
    return programOf(path.join(root, "1")).signatures[0]!.steps.map(({ kind }) => kind);
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    return `${error.code} ${error.message}`;
  }
}

const items = constant("items", [2, 3], [1, 2, 3, 4, 5, 6]);
const product = operation("product", "MatMul", "x", "items");
const chain = (count: number, op: string, ...others: readonly string[]): Node[] =>
  Array.from({ length: count }, (_, at) => {
    const name = at === count - 1 ? "y" : `n${at}`;
    const before = at === 0 ? "product" : `n${at - 1}`;
    return operation(name, op, before, ...(others.length === 0 ? [] : others));
  });

test("a top-k whose k the request says is a search too, through casts and bounds", () => {
  const { signatures, tables } = programOf(path.join(EXPORT, "../../requested_k/1"));
  const searches = signatures.flatMap(({ steps }) => steps.filter(({ kind }) => kind === "topK"));

  expect(tables).toMatchObject([{ kind: "candidate", rows: 40, idDtype: "string" }]);
  expect(searches.map((step) => typeof (step as TopKStep).k)).toEqual(
    Array.from({ length: 8 }, () => "object"),
  );
});

describe("scores under a mask", () => {
  const masked = programOf(path.join(EXPORT, "../../masked_searches/1"));
  const named = masked.signatures.filter(({ methodName }) => methodName !== "");
  const ofKind = (isDense: boolean): SignatureProgram[] =>
    named.filter(({ name }) => name.startsWith("dense_") === isDense);

  test.each(ofKind(false))("$name are searched by columns of the table", ({ steps }) => {
    const search = steps.find((step) => step.kind === "topK");

    expect(search?.masks).toBeDefined();
    expect(masked.tables[search!.table]).toMatchObject({ kind: "candidate", idDtype: "string" });
  });

  test.each(ofKind(true))("$name are not", ({ steps }) => {
    expect(steps.map(({ kind }) => kind)).not.toContain("topK");
  });

  test("compare floats of a request without a dense part", () => {
    const { steps } = named.find(({ name }) => name === "dearer")!;

    expect(steps.map(({ kind }) => kind)).toEqual(["host", "topK"]);
  });

  test("that flags make together have a penalty for each number, of rows that those before it keep", () => {
    const { steps } = named.find(({ name }) => name === "flags_of_three")!;
    const search = steps.find((step) => step.kind === "topK");

    expect(search?.masks?.map(({ isElse = false }) => isElse)).toEqual([false, true, true]);
  });

  test("are of one table, whose columns each stand once and count as memory", () => {
    const [plain, prices, biased] = masked.tables;

    // A table of flags that only masks read is none of its own.
    expect(masked.tables).toHaveLength(5);
    expect(prices).toMatchObject({ kind: "keyed", name: "prices" });
    expect(plain).toMatchObject({ dim: 8 });
    expect((plain as CandidateTable).masks?.map(({ type }) => type).toSorted()).toEqual([
      "boolean",
      "boolean",
      "boolean",
      "boolean",
      "float",
      "integer",
      "integer",
      "integer",
      "integer",
      "integer",
      "integer",
      "string",
    ]);
    expect((biased as CandidateTable).masks?.map(({ type }) => type)).toEqual([
      "integer",
      "integer",
      "float",
      "boolean",
      "integer",
    ]);
  });
});

describe("scores of a small graph", () => {
  const scalar = (value: number): Node => constant("c", [], [value]);

  test("are searched under a factor that keeps their order, and not under any other", () => {
    for (const [value, isSearched] of [
      [2, true],
      [1e-3, true],
      [0, false],
    ] as const) {
      const kinds = kindsOf([items, product, scalar(value), operation("y", "Mul", "c", "product")]);

      expect(kinds).toEqual(isSearched ? ["topK"] : ["dense"]);
    }
    for (const value of [NaN, Infinity, -Infinity, 1e-38, 3e38]) {
      const kinds = kindsOf([items, product, scalar(value), operation("y", "Mul", "product", "c")]);

      expect(kinds).toEqual(["dense"]);
    }
  });

  test("are not searched where a constant bias puts items before all others, or gives them no score", () => {
    const bias = (value: number): Node => constant("b", [3], [0, value, 0]);
    const sum = operation("y", "AddV2", "product", "b");

    expect(kindsOf([items, product, bias(-1e9), sum])).toEqual(["dense", "topK"]);
    expect(kindsOf([items, product, bias(-Infinity), sum])).toEqual(["topK"]);
    expect(kindsOf([items, product, bias(Infinity), sum])).toEqual(["dense"]);
    expect(kindsOf([items, product, bias(NaN), sum])).toEqual(["dense"]);
  });

  test("are not searched in rows that are too long for a device", () => {
    const wide = (dim: number): Node => constant("items", [dim, 2], new Float32Array(dim * 2));

    const kinds = [32_768, 32_769].map((dim) => {
      return kindsOf([wide(dim), operation("y", "MatMul", "x", "items")], dim);
    });
    expect(kinds).toEqual([["topK"], ["dense"]]);
  });

  test("are searched by the opposite query under a negative factor", () => {
    const negative = [items, product, scalar(-2), operation("y", "Mul", "c", "product")];

    expect(kindsOf(negative)).toEqual(["dense", "topK"]);
    expect(kindsOf([items, product, operation("y", "Neg", "product")])).toEqual(["dense", "topK"]);
  });

  test.each(["Square", "Cos", "Abs"])(
    "are not searched behind %s, which changes their order",
    (op) => {
      expect(kindsOf([items, product, operation("y", op, "product")])).toEqual(["dense"]);
    },
  );

  test.each("Sigmoid Tanh Exp Softplus Relu Relu6 Round Floor Softmax LogSoftmax".split(" "))(
    "are searched behind %s",
    (op) => {
      expect(kindsOf([items, product, operation("y", op, "product")])[0]).toBe("topK");
    },
  );
});

describe("a graph that is hard to follow", () => {
  test("with operations beyond what is traced stays dense", () => {
    const c = constant("c", [], [2]);

    expect(kindsOf([items, product, c, ...chain(20, "Mul", "c")])[0]).toBe("topK");
    expect(kindsOf([items, product, c, ...chain(500, "Mul", "c")])).toEqual(["dense"]);
  });

  test("with powers of one value is read in the time of its nodes", () => {
    const powers = Array.from({ length: 3000 }, (_, at) => {
      const before = at === 0 ? "x" : `p${at - 1}`;
      return operation(`p${at}`, "Mul", before, before);
    });
    const factor = operation("y", "Mul", "product", "p2999");
    const kinds = kindsOf([items, product, ...powers, factor]);

    expect(kinds).toMatch(/^INVALID_ARGUMENT .*cannot combine the shapes/);
    const squares = [...powers, operation("y", "MatMul", "x", "p2999")];
    expect(kindsOf(squares)).toEqual(["dense"]);
  });

  test("with flags that are joined with themselves again and again is read in the time of its nodes", () => {
    const stock = constant("f0", [3], [0, 1, 0]);
    const bound = constant("t", [], [0]);
    const joined = (op: string, count: number): Node[] => [
      operation("s0", "Greater", "product", "t"),
      operation("f1", "SelectV2", "s0", "t", "f0"),
      ...Array.from({ length: count }, (_, at) =>
        operation(`f${at + 2}`, op, `f${at + 1}`, `f${at + 1}`),
      ),
      operation("y", "AddV2", "product", `f${count + 1}`),
    ];

    for (const op of ["AddV2", "Maximum", "Mul"]) {
      const kinds = kindsOf([items, product, stock, bound, ...joined(op, 300)]);

      expect(kinds).toEqual(["dense"]);
    }
  });
});
