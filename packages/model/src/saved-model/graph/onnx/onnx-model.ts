// Puts an ONNX model together, node by node. Names are numbers in order of appearance, so two
// signatures with the same dense part give the same bytes.

import type { Dtype, Tensor } from "@winnow/core";
import { WinnowError } from "@winnow/core";
import { OnnxMessage, nodeMessage, tensorMessage, valueMessage } from "./onnx-message.ts";
import type { OnnxAttribute } from "./onnx-message.ts";

const IR_VERSION = 8;
const OPSET = 17;

/** What a node is made of besides its inputs. */
export interface NodeOptions {
  readonly attributes?: Readonly<Record<string, OnnxAttribute>>;
  readonly outputCount?: number;
}

/** A model under construction. */
export class OnnxModel {
  readonly #nodes: OnnxMessage[] = [];
  readonly #initialisers = new Map<string, OnnxMessage>();
  readonly #used = new Set<string>();
  readonly #inputs: OnnxMessage[] = [];
  readonly #outputs: OnnxMessage[] = [];
  readonly #constants = new Map<Tensor, string>();
  readonly #integers = new Map<string, string>();
  #names = 0;

  /** Declares an input and names it. */
  input(dtype: Dtype, shape: readonly number[] | undefined): string {
    const name = `input_${this.#inputs.length}`;
    this.#inputs.push(valueMessage(name, dtype, shape));
    return name;
  }

  /** Declares an output, a copy of a value, and names it. */
  output(value: string, dtype: Dtype): string {
    const name = `output_${this.#outputs.length}`;
    const copy = { op: "Identity", name, inputs: [value], outputs: [name], attributes: {} };
    this.#nodes.push(nodeMessage(copy));
    this.#used.add(value);
    this.#outputs.push(valueMessage(name, dtype, undefined));
    return name;
  }

  /** Adds a node and names its outputs. */
  nodes(op: string, inputs: readonly string[], options: NodeOptions = {}): string[] {
    const { attributes = {}, outputCount = 1 } = options;
    const name = this.#nextName();
    const outputs = Array.from({ length: outputCount }, (_, index) => `${name}_${index}`);
    this.#nodes.push(nodeMessage({ op, name, inputs, outputs, attributes }));
    for (const input of inputs) this.#used.add(input);
    return outputs;
  }

  /** Adds a node with one output. */
  node(
    op: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, OnnxAttribute>> = {},
  ): string {
    return this.nodes(op, inputs, { attributes })[0]!;
  }

  /** Adds a constant once; one that no node uses is not written. @throws WinnowError UNIMPLEMENTED for strings */
  constant(tensor: Tensor): string {
    const known = this.#constants.get(tensor);
    if (known !== undefined) return known;
    if (tensor.dtype === "string") {
      throw new WinnowError("UNIMPLEMENTED", "a dense part cannot hold strings");
    }
    const name = this.#nextName();
    this.#initialisers.set(name, tensorMessage(name, tensor));
    this.#constants.set(tensor, name);
    return name;
  }

  /** An int64 vector, or a scalar where a number is given. */
  integers(values: readonly number[] | number): string {
    const key = JSON.stringify(values);
    const known = this.#integers.get(key);
    if (known !== undefined) return known;
    const list = typeof values === "number" ? [values] : values;
    const shape = typeof values === "number" ? [] : [list.length];
    const name = this.constant({ dtype: "int64", shape, data: BigInt64Array.from(list, BigInt) });
    this.#integers.set(key, name);
    return name;
  }

  /** A scalar of an element type. */
  scalar(dtype: Dtype, value: number): string {
    return this.constant(scalarTensor(dtype, value));
  }

  /** The serialised ModelProto. @throws WinnowError RESOURCE_EXHAUSTED */
  toBytes(): Uint8Array {
    const graph = new OnnxMessage();
    for (const node of this.#nodes) graph.message(1, node);
    graph.bytes(2, "dense");
    for (const [name, initialiser] of this.#initialisers) {
      if (this.#used.has(name)) graph.message(5, initialiser);
    }
    for (const input of this.#inputs) graph.message(11, input);
    for (const output of this.#outputs) graph.message(12, output);
    const opset = new OnnxMessage().bytes(1, "").int(2, OPSET);
    return new OnnxMessage()
      .int(1, IR_VERSION)
      .bytes(2, "winnow")
      .message(7, graph)
      .message(8, opset)
      .toBytes();
  }

  #nextName(): string {
    this.#names += 1;
    return `n${this.#names}`;
  }
}

function scalarTensor(dtype: Dtype, value: number): Tensor {
  if (dtype === "float32") return { dtype, shape: [], data: Float32Array.of(value) };
  if (dtype === "float64") return { dtype, shape: [], data: Float64Array.of(value) };
  if (dtype === "int32") return { dtype, shape: [], data: Int32Array.of(value) };
  if (dtype === "int64") return { dtype, shape: [], data: BigInt64Array.of(BigInt(value)) };
  throw new WinnowError("UNIMPLEMENTED", `a dense part cannot compute with ${dtype} scalars`);
}
