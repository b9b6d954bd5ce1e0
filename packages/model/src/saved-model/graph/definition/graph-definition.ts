// The graph as the file states it (GraphDef, FunctionDef: tensorflow/core/framework/graph.proto,
// node_def.proto, function.proto, op_def.proto): named nodes, a library of functions, and the
// definitions of the operations they use. Definitions matter, because exports leave out attributes
// that equal their default, and because function bodies name outputs rather than number them.

import { WinnowError, excerpt } from "@winnow/core";
import type { ProtobufReader } from "@winnow/core";
import { Attributes, readAttribute } from "./attributes.ts";
import type { AttributeValue } from "./attributes.ts";

/** A node as written: inputs are references such as `MatMul:product:0`, `Const_2:0` or `^NoOp`. */
export interface NodeDefinition {
  readonly name: string;
  readonly op: string;
  readonly inputs: readonly string[];
  readonly attributes: Attributes;
}

/** A named body with arguments and results. */
export interface FunctionDefinition {
  readonly name: string;
  /** Argument names, in order. */
  readonly parameters: readonly string[];
  /** References of the results, in order. */
  readonly results: readonly string[];
  /** Nodes that run for their effect. */
  readonly controlResults: readonly string[];
  readonly nodes: ReadonlyMap<string, NodeDefinition>;
}

/** One output argument of an operation; it stands for several outputs if it has a list attribute. */
export interface OutputArgument {
  readonly name: string;
  readonly type: number;
  readonly typeAttribute: string;
  readonly countAttribute: string;
  readonly typeListAttribute: string;
}

/** The arguments of an operation, and the defaults of attributes that a node may leave out. */
export interface OperationDefinition {
  readonly name: string;
  readonly inputNames: readonly string[];
  readonly outputs: readonly OutputArgument[];
  readonly controlOutputs: readonly string[];
  readonly defaults: ReadonlyMap<string, AttributeValue>;
}

/** The main graph and the functions it can call. */
export interface GraphDefinition {
  readonly nodes: ReadonlyMap<string, NodeDefinition>;
  readonly functions: ReadonlyMap<string, FunctionDefinition>;
}

/** Reads a GraphDef. @throws WinnowError DATA_LOSS */
export function readGraph(reader: ProtobufReader): GraphDefinition {
  const nodes = new Map<string, NodeDefinition>();
  const functions = new Map<string, FunctionDefinition>();
  while (reader.next()) {
    if (reader.field === 1) addNode(nodes, readNode(reader.message()));
    else if (reader.field === 2) readLibrary(reader.message(), functions);
  }
  return { nodes, functions };
}

/** Reads an OpList into definitions by name. */
export function readOperations(reader: ProtobufReader): Map<string, OperationDefinition> {
  const operations = new Map<string, OperationDefinition>();
  while (reader.next()) {
    if (reader.field !== 1) continue;
    const operation = readOperation(reader.message());
    operations.set(operation.name, operation);
  }
  return operations;
}

function addNode(nodes: Map<string, NodeDefinition>, node: NodeDefinition): void {
  if (nodes.has(node.name)) {
    const message = `Two nodes of the graph are named ${excerpt(node.name)}`;
    throw new WinnowError("INVALID_ARGUMENT", message);
  }
  nodes.set(node.name, node);
}

function readNode(reader: ProtobufReader): NodeDefinition {
  let name = "";
  let op = "";
  const inputs: string[] = [];
  const attributes = new Map<string, AttributeValue>();
  while (reader.next()) {
    if (reader.field === 1) name = reader.text();
    else if (reader.field === 2) op = reader.text();
    else if (reader.field === 3) inputs.push(reader.text());
    else if (reader.field === 5) addAttribute(attributes, reader);
  }
  return { name, op, inputs, attributes: new Attributes(excerpt(name), attributes) };
}

function addAttribute(into: Map<string, AttributeValue>, reader: ProtobufReader): void {
  const { key, value } = reader.mapEntry();
  const attribute = value === undefined ? undefined : readAttribute(value.message());
  if (attribute !== undefined) into.set(key, attribute);
}

function readLibrary(reader: ProtobufReader, into: Map<string, FunctionDefinition>): void {
  while (reader.next()) {
    if (reader.field !== 1) continue;
    const definition = readFunction(reader.message());
    into.set(definition.name, definition);
  }
}

const NAMELESS: OperationDefinition = {
  name: "",
  inputNames: [],
  outputs: [],
  controlOutputs: [],
  defaults: new Map(),
};

function readFunction(reader: ProtobufReader): FunctionDefinition {
  let signature = NAMELESS;
  const nodes = new Map<string, NodeDefinition>();
  const results = new Map<string, string>();
  const controls = new Map<string, string>();
  while (reader.next()) {
    if (reader.field === 1) signature = readOperation(reader.message());
    else if (reader.field === 3) addNode(nodes, readNode(reader.message()));
    else if (reader.field === 4 || reader.field === 6) {
      const { key, value } = reader.mapEntry();
      (reader.field === 4 ? results : controls).set(key, value?.text() ?? "");
    }
  }
  const { name, inputNames, outputs } = signature;
  return {
    name,
    parameters: inputNames,
    results: outputs.map((output) => results.get(output.name) ?? ""),
    controlResults: [...controls.values()],
    nodes,
  };
}

function readOperation(reader: ProtobufReader): OperationDefinition {
  let name = "";
  const inputNames: string[] = [];
  const outputs: OutputArgument[] = [];
  const controlOutputs: string[] = [];
  const defaults = new Map<string, AttributeValue>();
  while (reader.next()) {
    if (reader.field === 1) name = reader.text();
    else if (reader.field === 2) inputNames.push(readArgument(reader.message()).name);
    else if (reader.field === 3) outputs.push(readArgument(reader.message()));
    else if (reader.field === 4) readDefault(reader.message(), defaults);
    else if (reader.field === 20) controlOutputs.push(reader.text());
  }
  return { name, inputNames, outputs, controlOutputs, defaults };
}

function readArgument(reader: ProtobufReader): OutputArgument {
  const texts = ["", "", "", ""];
  let type = 0;
  while (reader.next()) {
    if (reader.field === 1) texts[0] = reader.text();
    else if (reader.field === 3) type = reader.int();
    else if (reader.field >= 4 && reader.field <= 6) texts[reader.field - 3] = reader.text();
  }
  const [name = "", typeAttribute = "", countAttribute = "", typeListAttribute = ""] = texts;
  return { name, type, typeAttribute, countAttribute, typeListAttribute };
}

function readDefault(reader: ProtobufReader, into: Map<string, AttributeValue>): void {
  let name = "";
  let value: AttributeValue | undefined;
  while (reader.next()) {
    if (reader.field === 1) name = reader.text();
    else if (reader.field === 3) value = readAttribute(reader.message());
  }
  if (value !== undefined) into.set(name, value);
}
