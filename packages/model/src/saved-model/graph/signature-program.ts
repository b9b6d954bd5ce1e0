// From the placed nodes of a signature to the steps of its program: values get numbers, constants
// are listed, dense nodes of one phase become one step.

import { WinnowError, elementCount, validateHostStep } from "@winnow/core";
import type {
  DenseRanking,
  HostStep,
  MaskRule,
  SearchMask,
  ScoreFunction,
  SignatureProgram,
  SignatureTensor,
  Step,
  Tensor,
  ValueId,
  Vocabulary,
} from "@winnow/core";
import { programAttributesOf } from "./constant-folding.ts";
import { contentOf, makeDensePart } from "./dense-part.ts";
import { dataDtypeOf } from "./definition/graph-dtype.ts";
import { isElementwiseSignature } from "./elementwise-signature.ts";
import type { GraphSources } from "./sources/graph-sources.ts";
import { dependenciesOf, integerOf } from "./graph-value.ts";
import type {
  GraphMaskRule,
  NodeMask,
  GraphValue,
  LoweredNode,
  NodeCondition,
  OperationNode,
} from "./graph-value.ts";
import { placeNodes } from "./placement-of-nodes.ts";
import { uncutRankingsOf } from "./scores/uncut-tables.ts";
import type { NodePlace } from "./placement-of-nodes.ts";
import type { SignatureDefinition, TensorInfo } from "./definition/meta-graph.ts";
import type { SignatureGraph } from "./signature-graph.ts";

/** What the signatures of one version share; steps refer to it by position. */
export interface SharedParts {
  readonly denseModels: Uint8Array[];
  readonly vocabularies: Vocabulary[];
}

const HOST_CONSTANT_ELEMENTS_MAX = 1 << 26;
/**
 * Bytes of all dense parts of a version, at most; each one fits into a Protocol Buffers message.
 */
const DENSE_BYTES_MAX = 2 ** 32;

/** Writes the program of one signature. @throws WinnowError UNIMPLEMENTED, INVALID_ARGUMENT */
export function writeProgram(
  graph: SignatureGraph,
  sources: GraphSources,
  shared: SharedParts,
): SignatureProgram {
  return new ProgramWriter(graph, sources, shared).write();
}

/**
 * The signature that fills tables, which the metadata endpoint lists. Its outputs are operations,
 * not tensors; since a program's outputs must have a type and a value, they are empty vectors.
 */
export function initialiserProgram(signature: SignatureDefinition): SignatureProgram {
  const { name, methodName } = signature;
  const tensor: Tensor = { dtype: "int32", shape: [0], data: new Int32Array() };
  const outputs = signature.outputs.map((info, value): SignatureTensor => {
    const { name, graphTensor } = info;
    return { name, graphTensor, shape: undefined, value, dtype: tensor.dtype };
  });
  const constants = outputs.map(({ value }) => ({ value, tensor }));
  return { name, methodName, inputs: [], outputs, constants, steps: [] };
}

class ProgramWriter {
  readonly #graph: SignatureGraph;
  readonly #outputs: ReadonlySet<GraphValue>;
  readonly #isElementwise: boolean;
  readonly #sources: GraphSources;
  readonly #shared: SharedParts;
  readonly #places: ReadonlyMap<LoweredNode, NodePlace>;
  /** Top-k operations that may be done outside of their dense parts. */
  readonly #rankings: ReadonlySet<LoweredNode>;
  readonly #ids = new Map<GraphValue, ValueId>();
  readonly #constants: { readonly value: ValueId; readonly tensor: Tensor }[] = [];
  /** The nodes that read each value. */
  readonly #readers = new Map<GraphValue, Set<LoweredNode>>();

  constructor(graph: SignatureGraph, sources: GraphSources, shared: SharedParts) {
    this.#graph = graph;
    this.#outputs = new Set(graph.outputs);
    this.#isElementwise = isElementwiseSignature(graph);
    this.#sources = sources;
    this.#shared = shared;
    const { places, rankings } = placeNodes(graph.nodes, uncutRankingsOf(graph.nodes));
    this.#places = places;
    this.#rankings = rankings;
    for (const node of graph.nodes) {
      for (const input of dependenciesOf(node)) {
        const readers = this.#readers.get(input) ?? new Set();
        this.#readers.set(input, readers.add(node));
      }
    }
  }

  write(): SignatureProgram {
    const { signature, inputs, outputs } = this.#graph;
    const declaredInputs = signature.inputs.map((info, index) => {
      return this.#declared(info, this.#newId(inputs[index]!));
    });
    const steps = this.#steps();
    const declaredOutputs = signature.outputs.map((info, index) => {
      const value = outputs[index]!;
      const declared = this.#declared(info, this.#read(value));
      if (declared.dtype === value.dtype) return declared;
      const types = `declared as ${declared.dtype} but computed as ${value.dtype}`;
      throw new WinnowError("INVALID_ARGUMENT", `output "${info.name}" is ${types}`);
    });
    const { name, methodName } = signature;
    const ends = { inputs: declaredInputs, outputs: declaredOutputs };
    const program = { name, methodName, ...ends, constants: this.#constants, steps };
    return this.#isElementwise ? { ...program, isElementwise: true } : program;
  }

  #declared(info: TensorInfo, value: ValueId): SignatureTensor {
    const { name, graphTensor, shape } = info;
    return { name, graphTensor, shape, value, dtype: dataDtypeOf(info.type, `"${name}"`) };
  }

  /** Phase by phase: first the dense part and those of branches, then the nodes that need them. */
  #steps(): Step[] {
    const steps: Step[] = [];
    const phases: LoweredNode[][] = [];
    for (const node of this.#graph.nodes) {
      const phase = this.#places.get(node)?.phase ?? 0;
      (phases[phase] ??= []).push(node);
    }
    for (const nodes of Array.from(phases, (ofPhase: LoweredNode[] | undefined) => ofPhase ?? [])) {
      for (const [when, dense] of this.#denseNodes(nodes)) {
        steps.push(this.#conditional(this.#denseStep(dense), when));
      }
      for (const node of nodes) {
        if (!this.#isDense(node)) steps.push(this.#conditional(this.#step(node), node.when));
      }
    }
    return steps;
  }

  /**
   * Dense nodes by branch, in the order in which the branches begin: what a branch needs of the nodes
   * around it stands before it.
   */
  #denseNodes(
    nodes: readonly LoweredNode[],
  ): ReadonlyMap<NodeCondition | undefined, readonly OperationNode[]> {
    const groups = new Map<NodeCondition | undefined, OperationNode[]>();
    for (const node of nodes) {
      if (node.kind !== "operation" || !this.#isDense(node)) continue;
      const group = groups.get(node.when);
      if (group === undefined) groups.set(node.when, [node]);
      else group.push(node);
    }
    return groups;
  }

  #conditional(step: Step, when: NodeCondition | undefined): Step {
    if (when === undefined) return step;
    return { ...step, when: { predicate: this.#read(when.predicate), isTrue: when.isTrue } };
  }

  #isDense(node: LoweredNode): boolean {
    return this.#places.get(node)?.side === "dense";
  }

  #denseStep(nodes: readonly OperationNode[]): Step {
    const inside = new Set<LoweredNode>(nodes);
    const isReadOutside = (value: GraphValue): boolean =>
      this.#outputs.has(value) ||
      [...(this.#readers.get(value) ?? [])].some((reader) => !inside.has(reader));
    const ranked = nodes.filter((node) => {
      const { producer } = node.inputs[0] ?? {};
      return this.#rankings.has(node) && producer !== undefined && inside.has(producer);
    });
    const scores = new Set(ranked.flatMap(({ inputs }) => inputs[0] ?? []));
    const part = makeDensePart(nodes, {
      files: this.#sources.files,
      idOf: (value) => this.#idOf(value),
      shapeOf: (value) => (this.#isElementwise ? undefined : value.shape),
      isReadOutside: (value) => scores.has(value) || isReadOutside(value),
    });
    const { denseModels } = this.#shared;
    const known = denseModels.findIndex((bytes) => Buffer.compare(bytes, part.bytes) === 0);
    const model = known >= 0 ? known : denseModels.push(part.bytes) - 1;
    const total = denseModels.reduce((sum, { length }) => sum + length, 0);
    if (total > DENSE_BYTES_MAX) {
      const text = `the dense parts take ${total} bytes; up to ${DENSE_BYTES_MAX} are served`;
      throw new WinnowError("RESOURCE_EXHAUSTED", text);
    }
    const names = new Map(part.outputs.map(({ name, value }) => [value, name]));
    const rankings = ranked.flatMap((node) => this.#ranking(node, names) ?? []);
    const hidden = new Set(
      [...scores].flatMap((value) => (isReadOutside(value) ? [] : this.#idOf(value))),
    );
    return {
      kind: "dense",
      model,
      inputs: part.inputs,
      outputs: part.outputs.filter(({ value }) => !hidden.has(value)),
      ...(rankings.length > 0 && { rankings }),
    };
  }

  /** `undefined` for a top-k whose results nobody needs. */
  #ranking(
    { name, inputs, outputs }: OperationNode,
    names: ReadonlyMap<ValueId, string>,
  ): DenseRanking | undefined {
    const [scored, wanted] = inputs;
    const nameOf = (value: GraphValue | undefined): string | undefined =>
      value && names.get(this.#ids.get(value) ?? -1);
    const [scores, best, rows] = [scored, ...outputs].map(nameOf);
    const items = scored?.shape?.[1];
    const k = wanted && integerOf(wanted);
    if (scores === undefined || items === undefined || k === undefined) return undefined;
    if (best === undefined && rows === undefined) return undefined;
    return { node: name, scores, items, k, ...(best && { best }), ...(rows && { rows }) };
  }

  #step(node: LoweredNode): Step {
    switch (node.kind) {
      case "operation":
        return this.#hostStep(node);
      case "lookup": {
        const keys = this.#read(node.inputs[0]!);
        const output = this.#newId(node.outputs[0]!);
        return { kind: "lookup", table: node.table, node: node.name, keys, output };
      }
      case "topK": {
        const query = this.#read(node.inputs[0]!);
        const [scores, rows, ids] = [0, 1, 2].map((position) => {
          const output = node.outputs[position];
          // Lists are put together by their rows where a mask leaves some out, values are equal, or
          // each vector of a query has a list.
          const isMadeUp =
            node.masks.length > 0 || node.functions.length > 0 || node.vectors !== undefined;
          const isNeeded = position === 1 && isMadeUp;
          const isWanted = output !== undefined && (isNeeded || this.#isWanted(output));
          return isWanted ? this.#newId(output) : undefined;
        });
        const { table, name, capped, vectors } = node;
        const k = node.k ?? { value: this.#read(node.inputs[1]!) };
        const step = { kind: "topK", table, node: name, query, k, capped } as const;
        const masks = node.masks.map((mask) => this.#mask(mask));
        const functions = node.functions.map(({ op, operand }): ScoreFunction => {
          return operand === undefined ? { op } : { op, operand: this.#read(operand) };
        });
        const more = {
          ...(vectors !== undefined && { vectors }),
          ...(masks.length > 0 && { masks }),
          ...(functions.length > 0 && { functions }),
        };
        return { ...step, ...more, scores, rows, ids };
      }
      case "choice": {
        const [predicate, yes, no] = node.inputs.map((value) => this.#read(value));
        const output = this.#newId(node.outputs[0]!);
        const branches = [yes!, no!] as const;
        return { kind: "choice", node: node.name, predicate: predicate!, branches, output };
      }
    }
  }

  #mask({ keeps, score, penalty, bonus, isFactor, isElse, functionsBefore }: NodeMask): SearchMask {
    return {
      keeps: this.#rule(keeps),
      score,
      functionsBefore,
      ...(penalty && { penalty: this.#read(penalty) }),
      ...(bonus && { bonus: this.#read(bonus) }),
      ...(isFactor === true && { isFactor }),
      ...(isElse === true && { isElse }),
    };
  }

  #rule(rule: GraphMaskRule<string>): MaskRule {
    if (rule.kind === "test") return { ...rule, values: this.#read(rule.values) };
    if (rule.kind === "not") return { kind: "not", of: this.#rule(rule.of) };
    return { kind: rule.kind, of: rule.of.map((each) => this.#rule(each)) };
  }

  #isWanted(value: GraphValue): boolean {
    return this.#readers.has(value) || this.#outputs.has(value);
  }

  #hostStep(node: OperationNode): HostStep {
    const inputs = node.inputs.filter(({ resource }) => resource === undefined);
    const table = node.inputs.find(({ resource }) => resource?.kind === "table")?.resource;
    const step: HostStep = {
      kind: "host",
      op: node.op,
      node: node.name,
      attributes: programAttributesOf(node.attributes),
      ...(table === undefined ? {} : { vocabulary: this.#vocabulary(table.name) }),
      inputs: inputs.map((value) => this.#read(value)),
      outputs: node.outputs.map((value) => this.#newId(value)),
    };
    validateHostStep(step);
    return step;
  }

  #vocabulary(table: string): number {
    const { vocabularies } = this.#shared;
    const { vocabulary } = this.#sources.tables.distinct(table);
    const known = vocabularies.indexOf(vocabulary);
    return known >= 0 ? known : vocabularies.push(vocabulary) - 1;
  }

  /** The number of a value that a step or the signature reads; constants are listed on first use. */
  #read(value: GraphValue): ValueId {
    const known = this.#ids.get(value);
    if (known !== undefined) return known;
    const tooLarge = elementCount(value.shape ?? []) > HOST_CONSTANT_ELEMENTS_MAX;
    const tensor = tooLarge ? undefined : contentOf(value, this.#sources.files);
    if (tensor === undefined) {
      const what = value.asset ?? value.resource?.name ?? `a ${value.dtype} value`;
      throw new WinnowError("UNIMPLEMENTED", `${what} cannot be part of a program as it is used`);
    }
    const id = this.#newId(value);
    this.#constants.push({ value: id, tensor });
    return id;
  }

  #idOf(value: GraphValue): ValueId {
    return this.#ids.get(value) ?? this.#newId(value);
  }

  #newId(value: GraphValue): ValueId {
    const id = this.#ids.size;
    this.#ids.set(value, id);
    return id;
  }
}
