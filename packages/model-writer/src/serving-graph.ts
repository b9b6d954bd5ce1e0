// Composes the graph of a served model as TensorFlow 2 exports it. The computation is a function.
// Variables, hash tables and default values are nodes of the main graph, which are passed on as
// captured arguments, twice: signature call → wrapper → body. Restoring and initialising are
// functions of their own, which the saver and the init node name.

import type { GraphType } from "./graph-type.ts";
import { type Dtype, type Tensor, stringTensor } from "@winnow/core";
import {
  type GraphVariable,
  callNode,
  constantNode,
  identityNode,
  restoreFunction,
  saveFunction,
} from "./saver-function.ts";
import type {
  WrittenArgument,
  WrittenAttribute,
  WrittenFunction,
  WrittenModel,
  WrittenNode,
  WrittenSignatureTensor,
} from "./graph-message.ts";

/** A node to add; without attributes it has none. */
export interface BodyNode {
  readonly name: string;
  readonly op: string;
  readonly inputs: readonly string[];
  readonly attributes?: Readonly<Record<string, WrittenAttribute>>;
}

interface Capture extends WrittenArgument {
  readonly node: string;
}

/** The graph of one model under construction. */
export class ServingGraph {
  readonly #nodes: WrittenNode[] = [];
  readonly #functions: WrittenFunction[] = [];
  readonly #body: WrittenNode[] = [];
  readonly #inputs: WrittenSignatureTensor[] = [];
  readonly #captures: Capture[] = [];
  readonly #variables: GraphVariable[] = [];
  readonly #initializers: string[] = [];
  readonly #assets: { readonly graphTensor: string; readonly file: string }[] = [];

  /** A signature input of strings `[-1]`; gives the name of its value in the body. */
  stringInput(name: string): string {
    const graphTensor = `serving_default_${name}:0`;
    this.#inputs.push({ name, graphTensor, dtype: "string", shape: [-1] });
    this.addNode({
      name: `serving_default_${name}`,
      op: "Placeholder",
      inputs: [],
      attributes: { dtype: { type: "string" }, shape: { shape: [-1] } },
    });
    return name;
  }

  /** A variable; gives the name of its handle in the body. */
  variable(variable: GraphVariable): string {
    const { name, dtype, shape } = variable;
    this.#variables.push(variable);
    this.addNode({
      name,
      op: "VarHandleOp",
      inputs: [],
      attributes: { dtype: { type: dtype }, shape: { shape }, shared_name: { text: name } },
    });
    return this.capture(name, "resource");
  }

  /** A constant of the main graph, not yet captured. */
  constant(name: string, tensor: Tensor): string {
    return this.addNode(constantNode(name, tensor));
  }

  /** Makes a node of the main graph an argument of the body; returns the argument's name. */
  capture(node: string, type: GraphType): string {
    const name = `capture_${this.#captures.length}`;
    this.#captures.push({ name, type, node });
    return name;
  }

  /** Adds a node to the main graph; gives its name. */
  addNode(node: BodyNode): string {
    this.#nodes.push({ attributes: {}, ...node });
    return node.name;
  }

  /** Adds a node to the serving function; gives its name. */
  addBodyNode(node: BodyNode): string {
    this.#body.push({ attributes: {}, ...node });
    return node.name;
  }

  /** A function that fills a table when the model is loaded: `arguments` are main graph nodes. */
  initializer(
    node: BodyNode,
    given: readonly { readonly node: string; readonly name: string; readonly type: GraphType }[],
  ): void {
    const number = this.#initializers.length;
    const name = `__inference__initializer_${number}`;
    this.#functions.push({
      name,
      arguments: given.map((argument) => ({ name: argument.name, type: argument.type })),
      results: [{ name: "identity", type: "int32", value: "Identity:output:0" }],
      nodes: [
        { attributes: {}, ...node },
        constantNode("Const", { dtype: "int32", shape: [], data: Int32Array.of(1) }),
        identityNode("Identity", ["Const:output:0", `^${node.name}`], "int32"),
      ],
      effects: [node.name],
    });
    const types = given.map((argument) => argument.type);
    const inputs = given.map((argument) => argument.node);
    this.#initializers.push(
      this.addNode(callNode(`Initializer_${number}`, name, { inputs, types, results: ["int32"] })),
    );
  }

  /** An asset file; returns the main graph's node for its path, whose value loaders replace. */
  asset(file: string): string {
    const name = this.constant(
      `asset_path_initializer_${this.#assets.length}`,
      stringTensor([file], []),
    );
    this.#assets.push({ graphTensor: `${name}:0`, file });
    return name;
  }

  /** Completes the graph: `outputs` name body tensors in the order output_1, output_2, … */
  finish(
    outputs: readonly {
      readonly value: string;
      readonly dtype: Dtype;
      readonly shape: readonly number[];
    }[],
  ): WrittenModel {
    const given = [
      ...this.#inputs.map(({ name }) => ({ name, type: "string" as const })),
      ...this.#captures.map(({ name, type }) => ({ name, type })),
    ];
    const types = given.map(({ type }) => type);
    const results = outputs.map(({ dtype }) => dtype);
    this.#addServingFunctions(given, outputs);
    const inputs = [
      ...this.#inputs.map(({ name }) => `serving_default_${name}`),
      ...this.#captures.map(({ node }) => node),
    ];
    const wrapper = "__inference_signature_wrapper_1";
    this.addNode(callNode("StatefulPartitionedCall", wrapper, { inputs, types, results }));
    const initNode = "NoOp";
    this.addNode({
      name: initNode,
      op: "NoOp",
      inputs: this.#initializers.map((name) => `^${name}`),
    });
    this.#addSaver();
    return {
      nodes: this.#nodes,
      functions: this.#functions,
      inputs: this.#inputs,
      outputs: outputs.map(({ dtype, shape }, index) => ({
        name: `output_${index + 1}`,
        graphTensor: `StatefulPartitionedCall:${index}`,
        dtype,
        shape,
      })),
      assets: this.#assets,
      initNode,
      saver: {
        filename: "saver_filename",
        save: "StatefulPartitionedCall_1",
        restore: "StatefulPartitionedCall_2",
      },
    };
  }

  #addServingFunctions(
    given: readonly WrittenArgument[],
    outputs: readonly { readonly value: string; readonly dtype: Dtype }[],
  ): void {
    const body = "__inference__wrapped_model_0";
    const finals = outputs.map((output, index) =>
      identityNode(index === 0 ? "Identity" : `Identity_${index}`, [output.value], output.dtype),
    );
    const results = outputs.map(({ dtype }, index) => ({
      name: index === 0 ? "identity" : `identity_${index}`,
      type: dtype,
      value: `${index === 0 ? "Identity" : `Identity_${index}`}:output:0`,
    }));
    this.#functions.push({
      name: body,
      arguments: given,
      results,
      nodes: [...this.#body, ...finals],
      effects: [],
    });
    const inner = callNode("StatefulPartitionedCall", body, {
      inputs: given.map(({ name }) => name),
      types: given.map(({ type }) => type),
      results: outputs.map(({ dtype }) => dtype),
    });
    const passed = outputs.map(({ dtype }, index) =>
      identityNode(
        index === 0 ? "Identity" : `Identity_${index}`,
        [`StatefulPartitionedCall:output:${index}`],
        dtype,
      ),
    );
    this.#functions.push({
      name: "__inference_signature_wrapper_1",
      arguments: given,
      results,
      nodes: [inner, ...passed],
      effects: ["StatefulPartitionedCall"],
    });
  }

  #addSaver(): void {
    const handles = this.#variables.map(({ name }) => name);
    this.addNode({
      name: "saver_filename",
      op: "Placeholder",
      inputs: [],
      attributes: { dtype: { type: "string" }, shape: { shape: [] } },
    });
    const inputs = ["saver_filename", ...handles];
    const types: GraphType[] = ["string", ...handles.map(() => "resource" as const)];
    const results: Dtype[] = ["string"];
    this.#functions.push(
      saveFunction(SAVE, this.#variables),
      restoreFunction(RESTORE, this.#variables),
    );
    this.addNode(callNode("StatefulPartitionedCall_1", SAVE, { inputs, types, results }));
    this.addNode(callNode("StatefulPartitionedCall_2", RESTORE, { inputs, types, results }));
  }
}

const SAVE = "__inference__traced_save_2";
const RESTORE = "__inference__traced_restore_3";
