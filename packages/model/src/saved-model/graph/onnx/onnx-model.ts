// Puts an ONNX model together, node by node. Names are numbers in order of appearance, so two
// signatures with the same dense part give the same bytes. The graph inside of a node (the body of a
// loop) is put together the same way; it sees the values around it, so its names are not theirs, and
// its constants are theirs.

import type { Dtype, Tensor } from "@winnow/core";
import { WinnowError, dtypeArrays, elementCount } from "@winnow/core";
import { OnnxMessage, nodeMessage, tensorMessage, valueMessage } from "./onnx-message.ts";
import type { OnnxAttribute } from "./onnx-message.ts";

const IR_VERSION = 8;
const OPSET = 17;

/** What a node is made of besides its inputs. */
export interface NodeOptions {
  readonly attributes?: Readonly<Record<string, OnnxAttribute>>;
  readonly outputCount?: number;
  /** What ONNX Runtime says of the node when it fails, after its name. */
  readonly label?: string;
}

/** What a model and the graphs inside of it have in common. */
class SharedParts {
  readonly initialisers = new Map<string, OnnxMessage>();
  readonly used = new Set<string>();
  readonly constants = new Map<Tensor, string>();
  readonly integers = new Map<string, string>();
  names = 0;
}

/** A model under construction, or a graph inside of one. */
export class OnnxModel {
  readonly #nodes: OnnxMessage[] = [];
  readonly #inputs: OnnxMessage[] = [];
  readonly #outputs: OnnxMessage[] = [];
  /** Whether it is a graph inside of a node. */
  readonly isInner: boolean;
  readonly #shared: SharedParts;
  /** In the graph of a loop: the value that counts the iterations which loops may take from here on. */
  iterationsLeft: string | undefined;

  constructor(outer?: OnnxModel) {
    this.isInner = outer !== undefined;
    this.#shared = outer === undefined ? new SharedParts() : outer.#shared;
  }

  /** Declares an input and names it. */
  input(dtype: Dtype, shape: readonly number[] | undefined): string {
    const name = this.isInner ? this.#nextName() : `input_${this.#inputs.length}`;
    this.#inputs.push(valueMessage(name, dtype, shape));
    return name;
  }

  /** Declares an output, a copy of a value, and names it; its shape is left open unless it is given. */
  output(value: string, dtype: Dtype, shape?: readonly number[]): string {
    const name = this.isInner ? this.#nextName() : `output_${this.#outputs.length}`;
    const copy = { op: "Identity", name, inputs: [value], outputs: [name], attributes: {} };
    this.#nodes.push(nodeMessage(copy));
    this.#shared.used.add(value);
    this.#outputs.push(valueMessage(name, dtype, shape));
    return name;
  }

  /** Adds a node and names its outputs. */
  nodes(op: string, inputs: readonly string[], options: NodeOptions = {}): string[] {
    const { attributes = {}, outputCount = 1 } = options;
    const name = this.#nextName();
    const outputs = Array.from({ length: outputCount }, (_, index) => `${name}_${index}`);
    const label = options.label === undefined ? name : `${name}: ${options.label}`;
    this.#nodes.push(nodeMessage({ op, name: label, inputs, outputs, attributes }));
    for (const input of inputs) this.#shared.used.add(input);
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
    const { constants, initialisers } = this.#shared;
    const known = constants.get(tensor);
    if (known !== undefined) return known;
    if (tensor.dtype === "string") {
      throw new WinnowError("UNIMPLEMENTED", "a dense part cannot hold strings");
    }
    const name = this.#nextName();
    initialisers.set(name, tensorMessage(name, tensor));
    constants.set(tensor, name);
    return name;
  }

  /** An int64 vector, or a scalar where a number is given. */
  integers(values: readonly number[] | number): string {
    const key = JSON.stringify(values);
    const known = this.#shared.integers.get(key);
    if (known !== undefined) return known;
    const list = typeof values === "number" ? [values] : values;
    const shape = typeof values === "number" ? [] : [list.length];
    const name = this.constant({ dtype: "int64", shape, data: BigInt64Array.from(list, BigInt) });
    this.#shared.integers.set(key, name);
    return name;
  }

  /** A scalar of an element type. */
  scalar(dtype: Dtype, value: number): string {
    return this.constant(scalarTensor(dtype, value));
  }

  /** Zeros of an element type. */
  zeros(dtype: Exclude<Dtype, "string">, shape: readonly number[]): string {
    const data = new dtypeArrays[dtype](elementCount(shape));
    return this.constant({ dtype, shape, data } as Tensor);
  }

  /** A graph inside of a node of this one. */
  inner(): OnnxModel {
    return new OnnxModel(this);
  }

  /** The GraphProto, with the constants of all graphs inside of it. */
  graph(): OnnxMessage {
    const graph = new OnnxMessage();
    for (const node of this.#nodes) graph.message(1, node);
    graph.bytes(2, "dense");
    for (const [name, initialiser] of this.isInner ? [] : this.#shared.initialisers) {
      if (this.#shared.used.has(name)) graph.message(5, initialiser);
    }
    for (const input of this.#inputs) graph.message(11, input);
    for (const output of this.#outputs) graph.message(12, output);
    return graph;
  }

  /** The serialised ModelProto. @throws WinnowError RESOURCE_EXHAUSTED */
  toBytes(): Uint8Array {
    const graph = this.graph();
    const opset = new OnnxMessage().bytes(1, "").int(2, OPSET);
    return new OnnxMessage()
      .int(1, IR_VERSION)
      .bytes(2, "winnow")
      .message(7, graph)
      .message(8, opset)
      .toBytes();
  }

  #nextName(): string {
    this.#shared.names += 1;
    return `n${this.#shared.names}`;
  }
}

function scalarTensor(dtype: Dtype, value: number): Tensor {
  if (dtype === "float32") return { dtype, shape: [], data: Float32Array.of(value) };
  if (dtype === "float64") return { dtype, shape: [], data: Float64Array.of(value) };
  if (dtype === "int32") return { dtype, shape: [], data: Int32Array.of(value) };
  if (dtype === "int64") return { dtype, shape: [], data: BigInt64Array.of(BigInt(value)) };
  throw new WinnowError("UNIMPLEMENTED", `a dense part cannot compute with ${dtype} scalars`);
}
