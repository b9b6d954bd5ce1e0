// Graphs of a few operations, written as SavedModels without variables: shapes of models of which nobody has recorded
// TensorFlow's answers. What they must answer a test works out by itself, in plain float64.

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { ProtobufWriter, StringColumn } from "@winnow/core";
import type { Dtype } from "@winnow/core";
import { numberOfDtype } from "@winnow/model";

/** The types of constants: of half, the numbers are those of its bits. */
type WrittenDtype = Dtype | "half";
/** A type, by its name; a flag; an integer; a text; integers. */
type WrittenAttribute =
  | { readonly type: WrittenDtype }
  | boolean
  | number
  | string
  | readonly number[];

interface WrittenNode {
  readonly name: string;
  readonly op: string;
  readonly inputs: readonly string[];
  readonly write: (node: ProtobufWriter) => void;
}

interface Declared {
  readonly name: string;
  readonly tensor: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/** A graph under construction; values are named as TensorFlow names tensors. */
export class GraphWriter {
  readonly #nodes: WrittenNode[] = [];
  readonly #inputs: Declared[] = [];
  readonly #outputs: Declared[] = [];

  /** An input of the signature. */
  input(name: string, dtype: Dtype, shape: readonly number[]): string {
    this.#nodes.push({
      name,
      op: "Placeholder",
      inputs: [],
      write: (node) => {
        writeAttribute(node, "dtype", { type: dtype });
        node.entry(5, "shape", (value) =>
          value.message(7, (message) => writeShape(message, shape)),
        );
      },
    });
    this.#inputs.push({ name, tensor: `${name}:0`, dtype, shape });
    return name;
  }

  /** A constant of floats, or of other values where a type is named. */
  constant(
    values: readonly number[],
    shape: readonly number[],
    dtype: WrittenDtype = "float32",
  ): string {
    const name = `constant_${this.#nodes.length}`;
    const bytes = bytesOf(values, dtype);
    this.#nodes.push({
      name,
      op: "Const",
      inputs: [],
      write: (node) => {
        writeAttribute(node, "dtype", { type: dtype });
        node.entry(5, "value", (value) =>
          value.message(8, (tensor) =>
            tensor
              .int(1, numberOfDtype(dtype))
              .message(2, (message) => writeShape(message, shape))
              .bytes(4, bytes),
          ),
        );
      },
    });
    return name;
  }

  /** A constant of strings. */
  strings(texts: readonly string[]): string {
    const name = `constant_${this.#nodes.length}`;
    const column = StringColumn.fromText(texts);
    this.#nodes.push({
      name,
      op: "Const",
      inputs: [],
      write: (node) => {
        writeAttribute(node, "dtype", { type: "string" });
        node.entry(5, "value", (value) =>
          value.message(8, (tensor) => {
            tensor.int(1, numberOfDtype("string"));
            tensor.message(2, (message) => writeShape(message, [texts.length]));
            for (let at = 0; at < column.length; at += 1) tensor.bytes(8, column.at(at));
          }),
        );
      },
    });
    return name;
  }

  /** An operation on float32 values, or with other attributes; gives the name of its first output. */
  op(
    op: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, WrittenAttribute>> = {},
  ): string {
    const name = `${op.toLowerCase()}_${this.#nodes.length}`;
    const all = { T: { type: "float32" }, ...attributes } as const;
    const write = (node: ProtobufWriter): void => {
      for (const [key, attribute] of Object.entries(all)) writeAttribute(node, key, attribute);
    };
    this.#nodes.push({ name, op, inputs, write });
    return name;
  }

  /** The best `k` of some scores with the ids of their rows, as outputs `scores` and `ids`. */
  best(scores: string, ids: string, k: number): void {
    const depth = this.constant([k], [], "int32");
    const found = this.op("TopKV2", [scores, depth]);
    const axis = this.constant([0], [], "int32");
    const types = { Tparams: "string", Tindices: "int32", Taxis: "int32" } as const;
    const attributes = Object.entries(types).map(([name, type]) => [name, { type }] as const);
    const gathered = this.op("GatherV2", [ids, `${found}:1`, axis], Object.fromEntries(attributes));
    this.output("scores", found, { dtype: "float32", shape: [-1, k] });
    this.output("ids", gathered, { dtype: "string", shape: [-1, k] });
  }

  /** An output of the signature. */
  output(
    name: string,
    value: string,
    declared: { readonly dtype: Dtype; readonly shape: readonly number[] },
  ): void {
    const tensor = value.includes(":") ? value : `${value}:0`;
    this.#outputs.push({ name, tensor, ...declared });
  }

  /** Writes the version directory. */
  write(directory: string): void {
    const bytes = new ProtobufWriter()
      .int(1, 1)
      .message(2, (meta) => {
        meta.message(1, (info) => info.text(4, "serve").text(5, "2.15.0"));
        meta.message(2, (graph) => {
          for (const { name, op, inputs, write } of this.#nodes) {
            graph.message(1, (node) => {
              node.text(1, name).text(2, op);
              for (const input of inputs) node.text(3, input);
              write(node);
            });
          }
        });
        meta.entry(5, "serving_default", (signature) => {
          for (const [field, list] of [
            [1, this.#inputs],
            [2, this.#outputs],
          ] as const) {
            for (const { name, tensor, dtype, shape } of list) {
              signature.entry(field, name, (info) =>
                info
                  .text(1, tensor)
                  .int(2, numberOfDtype(dtype))
                  .message(3, (message) => writeShape(message, shape)),
              );
            }
          }
          signature.text(3, "tensorflow/serving/predict");
        });
      })
      .finish();
    mkdirSync(directory, { recursive: true });
    writeFileSync(path.join(directory, "saved_model.pb"), bytes);
  }
}

function writeAttribute(node: ProtobufWriter, key: string, attribute: WrittenAttribute): void {
  node.entry(5, key, (value) => {
    if (typeof attribute === "boolean") value.int(5, Number(attribute));
    else if (typeof attribute === "number") value.int(3, attribute);
    else if (typeof attribute === "string") value.text(2, attribute);
    else if ("type" in attribute) value.int(6, numberOfDtype(attribute.type));
    else {
      value.message(1, (list) => {
        for (const each of attribute) list.int(3, each);
      });
    }
  });
}

function writeShape(message: ProtobufWriter, shape: readonly number[]): void {
  for (const size of shape) message.message(2, (dimension) => dimension.int(1, size));
}

function bytesOf(values: readonly number[], dtype: WrittenDtype): Uint8Array {
  if (dtype === "half") return new Uint8Array(Uint16Array.from(values).buffer);
  if (dtype === "int32") return new Uint8Array(Int32Array.from(values).buffer);
  if (dtype === "int64") return new Uint8Array(BigInt64Array.from(values, BigInt).buffer);
  if (dtype === "float32") return new Uint8Array(Float32Array.from(values).buffer);
  if (dtype === "int8") return new Uint8Array(Int8Array.from(values).buffer);
  if (dtype === "bool") return Uint8Array.from(values);
  throw new RangeError(`constants of ${dtype} are not written`);
}
