// Whether a `model.onnx` can be served: its version, its operations, the iterations of its loops, its inputs
// and outputs. A model that workers accept must load in every router, so a model that ONNX Runtime would
// refuse there, or run forever, is refused here, where the version has a status that says why.

import { WinnowError, excerpt } from "@winnow/core";
import type { Dtype } from "@winnow/core";
import { MODEL_FILE } from "./model-file.ts";
import type { OnnxFile, OnnxGraph, OnnxNode, OnnxValue } from "./model-file.ts";
import {
  FURTHER_DOMAINS,
  IR_VERSION_MAX,
  ONNX_OPERATIONS,
  OPSETS,
  RANDOM_OPERATIONS,
} from "./operations.ts";

/** Iterations of a loop together with all loops inside it, in one run. */
export const ITERATIONS_MAX = 100_000;
const NAMED_MAX = 5;

/** Element types of inputs and outputs, by `TensorProto.DataType`. */
const DTYPES: ReadonlyMap<number, Dtype> = new Map([
  [1, "float32"],
  [2, "uint8"],
  [3, "int8"],
  [4, "uint16"],
  [5, "int16"],
  [6, "int32"],
  [7, "int64"],
  [9, "bool"],
  [11, "float64"],
  [12, "uint32"],
  [13, "uint64"],
]);
const OTHER_TYPES: ReadonlyMap<number, string> = new Map([
  [8, "string"],
  [14, "complex64"],
  [15, "complex128"],
]);

/** Half precision, which clients see as float32: every value of it is one of float32 too. */
const HALVES: ReadonlySet<number> = new Set([10, 16]);

/** An input or an output that can be served. */
export interface ServedValue {
  readonly name: string;
  /** The name in the model that is served, which differs from `name` if it is of half precision. */
  readonly modelName: string;
  readonly dtype: Exclude<Dtype, "string">;
  readonly shape: readonly number[] | undefined;
}

/** The parts of a graph that a signature is made of. */
export interface ServedGraph {
  readonly inputs: readonly ServedValue[];
  readonly outputs: readonly ServedValue[];
}

/** Checks a model. @throws WinnowError UNIMPLEMENTED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED */
export function checkedGraph(file: OnnxFile): ServedGraph {
  checkVersions(file);
  checkOperations(file);
  checkLoops(file);
  const inputs = givenInputs(file);
  if (inputs.length === 0) throw refused("INVALID_ARGUMENT", "it has no input");
  if (file.graph.outputs.length === 0) throw refused("INVALID_ARGUMENT", "it has no output");
  checkNames(inputs, "inputs");
  checkNames(file.graph.outputs, "outputs");
  checkBatches(inputs);
  return {
    inputs: inputs.map((value) => servedValue(value, "input")),
    outputs: file.graph.outputs.map((value) => servedValue(value, "output")),
  };
}

/** The inputs that requests give. Up to version 4 of the format, initialisers had to be listed as inputs. */
export function givenInputs({ graph }: OnnxFile): readonly OnnxValue[] {
  const initialised = new Set(graph.initialisers.map(({ name }) => name));
  return graph.inputs.filter(({ name }) => !initialised.has(name));
}

/** Whether an input or an output is of half precision. */
export function isHalf({ type }: OnnxValue): boolean {
  return type !== undefined && HALVES.has(type);
}

/** The name of the float32 value that stands for an input or output of half precision. */
export function wideNameOf(name: string): string {
  return `winnow/float32/${name}`;
}

function checkVersions({ irVersion, opsets, graph: { nodes } }: OnnxFile): void {
  if (irVersion > IR_VERSION_MAX) {
    const text = `it has version ${irVersion} of the format; up to ${IR_VERSION_MAX} are read`;
    throw refused("UNIMPLEMENTED", `${text}: export with an older onnx, or a lower opset_version`);
  }
  const opset = opsets.get("");
  if (opset === undefined) {
    // A model of nothing but trees needs none of ONNX's own operations, and names their set nowhere.
    if (nodes.every(({ domain }) => domain !== "")) return;
    throw refused("INVALID_ARGUMENT", "it names no operator set of ONNX");
  }
  if (opset >= OPSETS.least && opset <= OPSETS.most) return;
  const text = `it uses operator set ${opset}; ${OPSETS.least} to ${OPSETS.most} are read`;
  throw refused("UNIMPLEMENTED", `${text}: export with opset_version=17, say`);
}

/** Refuses operations that cannot be run, naming all of them at once. */
function checkOperations({ graph, functions }: OnnxFile): void {
  const own = new Set(functions.map(({ domain, name }) => `${domain}.${name}`));
  const unknown = new Map<string, string>();
  const random = new Map<string, string>();
  for (const node of nodesOf([...graph.nodes, ...functions.flatMap(({ nodes }) => nodes)])) {
    const { domain, op } = node;
    if (own.has(`${domain}.${op}`)) continue;
    if (isRandom(node)) random.set(op, titleOf(node));
    else if (!isKnown(node)) unknown.set(domain === "" ? op : `${domain}.${op}`, titleOf(node));
  }
  if (unknown.size > 0) {
    const text = `ONNX Runtime has no ${listOf(unknown)}; export with standard ONNX operations only`;
    throw refused("UNIMPLEMENTED", text);
  }
  if (random.size > 0) {
    const text = `${listOf(random)} would draw random numbers; call eval() before the export`;
    throw refused("UNIMPLEMENTED", text);
  }
}

function isKnown({ domain, op }: OnnxNode): boolean {
  return domain === "" ? ONNX_OPERATIONS.has(op) : FURTHER_DOMAINS.includes(domain);
}

/** Dropout draws random numbers if its third input says that the model is being trained. */
function isRandom({ domain, op, inputs }: OnnxNode): boolean {
  if (domain !== "") return false;
  return RANDOM_OPERATIONS.has(op) || (op === "Dropout" && (inputs[2] ?? "") !== "");
}

function isLoop({ domain, op }: OnnxNode): boolean {
  return domain === "" && op === "Loop";
}

/** Nodes, including those of inner graphs. */
function* nodesOf(nodes: readonly OnnxNode[]): Generator<OnnxNode> {
  for (const node of nodes) {
    yield node;
    for (const graph of node.graphs) yield* nodesOf(graph.nodes);
  }
}

/**
 * Refuses loops that could take more iterations than `ITERATIONS_MAX`. A loop of the outermost graph may
 * compute its number of iterations or end by a condition, as PyTorch writes an EmbeddingBag;
 * `self-contained-model.ts` then bounds it. A loop inside another graph must have a constant number, because
 * it is multiplied by the iterations of all loops around it.
 */
function checkLoops({ graph, functions }: OnnxFile): void {
  checkIterations([graph], { iterations: 1, isInner: false });
  for (const { nodes } of functions) {
    const loop = [...nodesOf(nodes)].find(isLoop);
    if (loop === undefined) continue;
    const text = `${titleOf(loop)} is in a function, where its iterations are not bounded`;
    throw refused("UNIMPLEMENTED", `${text}; export it inlined`);
  }
}

interface LoopSurroundings {
  /** The product of the iterations of the loops around. */
  readonly iterations: number;
  readonly isInner: boolean;
}

function checkIterations(
  graphs: readonly OnnxGraph[],
  { iterations, isInner }: LoopSurroundings,
): void {
  const constants = constantsOf(graphs);
  for (const node of graphs[0]!.nodes) {
    if (node.graphs.length === 0) continue;
    let all = iterations;
    if (isLoop(node)) {
      all *= iterationsOf(node, constants, isInner);
      if (all > ITERATIONS_MAX) {
        const text = `${titleOf(node)} may take ${all} iterations with the loops around it`;
        throw refused("RESOURCE_EXHAUSTED", `${text}; at most ${ITERATIONS_MAX} are taken`);
      }
    } else if (node.op === "Scan" || node.op === "SequenceMap") {
      // One iteration for each value that the request sends.
      all = ITERATIONS_MAX;
    }
    for (const inner of node.graphs)
      checkIterations([inner, ...graphs], { iterations: all, isInner: true });
  }
}

/** Iterations of one loop, at most. @throws WinnowError UNIMPLEMENTED if they are not known */
function iterationsOf(
  loop: OnnxNode,
  constants: ReadonlyMap<string, number>,
  isInner: boolean,
): number {
  const name = loop.inputs[0] ?? "";
  const count = constants.get(name);
  if (name === "" && (isInner || (loop.inputs[1] ?? "") === "")) {
    const ends = isInner ? "ends only by a condition inside of another graph" : "never ends";
    const text = `${titleOf(loop)} ${ends}, so its iterations are not bounded`;
    const bag = isInner
      ? ". PyTorch writes an EmbeddingBag with a padding_idx so: export (embedding(ids) * mask).sum(1) / mask.sum(1) instead"
      : "";
    throw refused("UNIMPLEMENTED", `${text}; give the loop a number of iterations at most${bag}`);
  }
  if (count === undefined && isInner) {
    const text = `${titleOf(loop)} computes its iterations inside of another graph`;
    throw refused("UNIMPLEMENTED", `${text}; give it a constant number of iterations at most`);
  }
  return Math.max(1, count ?? ITERATIONS_MAX);
}

/** Constants that nodes of the innermost graph see; its own hide those of outer graphs. */
function constantsOf(graphs: readonly OnnxGraph[]): ReadonlyMap<string, number> {
  const constants = new Map<string, number>();
  for (const { initialisers, nodes } of graphs.toReversed()) {
    for (const { name, integers } of initialisers) {
      if (integers?.length === 1) constants.set(name, integers[0]!);
    }
    for (const { op, outputs, tensors } of nodes) {
      const values = op === "Constant" ? tensors[0]?.integers : undefined;
      if (values?.length === 1) constants.set(outputs[0] ?? "", values[0]!);
    }
  }
  return constants;
}

/** Loops of the outermost graph whose number of iterations is computed, or that end by a condition. */
export function computedLoops({ graph }: OnnxFile): readonly OnnxNode[] {
  const constants = constantsOf([graph]);
  return graph.nodes.filter((node) => isLoop(node) && !constants.has(node.inputs[0] ?? ""));
}

function checkNames(values: readonly OnnxValue[], what: string): void {
  const seen = new Set<string>();
  for (const { name } of values) {
    if (name === "" || seen.has(name)) {
      throw refused("INVALID_ARGUMENT", `two of its ${what} are called "${excerpt(name)}"`);
    }
    seen.add(name);
  }
}

/**
 * Refuses inputs for a fixed number of instances. Scalars, such as a temperature, are for all instances of a request,
 * but one input must tell how many there are.
 */
function checkBatches(inputs: readonly OnnxValue[]): void {
  const batches = inputs.filter(({ shape }) => shape?.length !== 0);
  for (const input of batches.length === 0 ? inputs : batches) checkBatch(input);
}

function checkBatch({ name, shape }: OnnxValue): void {
  if (shape === undefined || (shape.length > 0 && shape[0] === -1)) return;
  const text = `input "${excerpt(name)}" has the fixed shape [${shape.join(",")}]`;
  const remedy =
    "export with a first dimension of any size: dynamic_shapes, or dynamic_axes={...: {0: 'batch'}}";
  throw refused("INVALID_ARGUMENT", `${text}; ${remedy}`);
}

function servedValue(value: OnnxValue, what: "input" | "output"): ServedValue {
  const { name, type, shape } = value;
  if (isHalf(value)) return { name, modelName: wideNameOf(name), dtype: "float32", shape };
  const dtype = type === undefined ? undefined : DTYPES.get(type);
  if (dtype !== undefined && dtype !== "string") return { name, modelName: name, dtype, shape };
  const title = `${what} "${excerpt(name)}"`;
  if (type === undefined) {
    const text = `${title} is a sequence, a map or an optional value, not a tensor`;
    throw refused("UNIMPLEMENTED", `${text}; export tensors (of a classifier: zipmap=False)`);
  }
  const found = `${title} is of type ${OTHER_TYPES.get(type) ?? `number ${type}`}`;
  throw refused("UNIMPLEMENTED", `${found}; ${remedyOf(type, what)}`);
}

function remedyOf(type: number, what: "input" | "output"): string {
  if (type !== 8) return "cast it to float32, or another type that is served, within the model";
  return what === "input"
    ? "let it be an integer, and declare the strings as its vocabulary in winnow.json"
    : "leave it out of the model, or let it be an integer";
}

function listOf(found: ReadonlyMap<string, string>): string {
  const named = Array.from(found, ([op, title]) => `operation ${excerpt(op)} (${title})`);
  const more = named.length - NAMED_MAX;
  return named.slice(0, NAMED_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function titleOf({ name, outputs, op }: OnnxNode): string {
  return `node ${excerpt(name === "" ? `${op} of ${outputs[0] ?? ""}` : name)}`;
}

function refused(
  code: "UNIMPLEMENTED" | "INVALID_ARGUMENT" | "RESOURCE_EXHAUSTED",
  what: string,
): WinnowError {
  return new WinnowError(code, `Cannot serve ${MODEL_FILE}: ${what}`);
}
