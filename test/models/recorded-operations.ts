// Which operations of TensorFlow the recorded answers depend on: those that were asked alone, and those that the
// signatures of recorded models need.

import { readFileSync } from "node:fs";
import path from "node:path";
import type { AttributeValue } from "../../packages/model/src/saved-model/graph/definition/attributes.ts";
import type { NodeDefinition } from "../../packages/model/src/saved-model/graph/definition/graph-definition.ts";
import { readServingGraph } from "../../packages/model/src/saved-model/graph/definition/meta-graph.ts";
import { recordedModels } from "./recorded-answers.ts";

const data = path.resolve(import.meta.dirname, "../data");
/** Models whose operations count: those of the repository. */
const FOLDERS: readonly string[] = ["test/data/savedmodels", "test/data/operations"];

/** Operations of which TensorFlow was asked alone, with edges of its inputs. */
export function askedAlone(file: "host-operations.json" | "dense-operations.json"): Set<string> {
  const text = readFileSync(path.join(data, file), "utf8");
  const { cases } = JSON.parse(text) as { readonly cases: readonly { readonly op: string }[] };
  return new Set(cases.map(({ op }) => op));
}

/** Operations that the recorded answers of models need. */
export function neededByModels(): Set<string> {
  return new Set(FOLDERS.flatMap(recordedModels).flatMap(({ directory }) => neededBy(directory)));
}

function neededBy(directory: string): readonly string[] {
  const bytes = readFileSync(path.join(directory, "saved_model.pb"));
  const { graph, signatures } = readServingGraph(bytes, directory);
  const operations = new Set<string>();
  const functions = new Set<string>();
  const follow = (nodes: ReadonlyMap<string, NodeDefinition>, results: readonly string[]): void => {
    for (const { op, attributes } of nodesBefore(nodes, results)) {
      operations.add(op);
      for (const called of [...attributes.entries().values()].flatMap(functionsIn)) {
        functions.add(called);
      }
    }
  };
  for (const { outputs } of signatures) {
    follow(
      graph.nodes,
      outputs.map(({ graphTensor }) => graphTensor),
    );
  }
  // A set gives what is added to it while it is gone through, too.
  for (const name of functions) {
    const called = graph.functions.get(name);
    if (called !== undefined) follow(called.nodes, [...called.results, ...called.controlResults]);
  }
  return [...operations];
}

/** The nodes that results depend on; references are such as `MatMul:product:0` and `^NoOp`. */
function nodesBefore(
  nodes: ReadonlyMap<string, NodeDefinition>,
  results: readonly string[],
): readonly NodeDefinition[] {
  const needed = new Set<string>(results.map(nameOf));
  const found: NodeDefinition[] = [];
  for (const name of needed) {
    const node = nodes.get(name);
    if (node === undefined) continue;
    found.push(node);
    for (const input of node.inputs) needed.add(nameOf(input));
  }
  return found;
}

function nameOf(reference: string): string {
  return reference.replace(/^\^/, "").split(":")[0]!;
}

function functionsIn(value: AttributeValue): readonly string[] {
  if (value.kind === "function") return [value.value];
  return value.kind === "list" ? value.value.flatMap(functionsIn) : [];
}
