// Exports of TensorFlow 2.0 list the definitions of the operations of their main graph, and not of those that only
// functions have, which is nearly all of a model. Every recorded model without these definitions answers as with them.

import { readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { ProtobufWriter, type ProtobufReader } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import { readServingGraph } from "../packages/model/src/saved-model/graph/definition/meta-graph.ts";
import { messageReader } from "../packages/model/src/saved-model/message.ts";
import { differenceOf } from "./models/answer-difference.ts";
import { ProgramMachine } from "./models/program-machine.ts";
import { inputTensors, recordedModels } from "./models/recorded-answers.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const models = ["test/data/savedmodels", "test/data/operations"].flatMap(recordedModels);

/** A message without the definitions of operations that `isKept` refuses, below the fields that lead to them. */
function copyOf(
  reader: ProtobufReader,
  fields: readonly number[],
  isKept: (operation: string) => boolean,
): Buffer {
  const writer = new ProtobufWriter();
  while (reader.next()) {
    if (reader.wire !== 2) {
      writer.int(reader.field, reader.int64());
    } else if (reader.field !== fields[0]) {
      writer.bytes(reader.field, reader.view());
    } else if (fields.length > 1) {
      writer.bytes(reader.field, copyOf(reader.message(), fields.slice(1), isKept));
    } else if (isKept(nameOf(reader.message()))) {
      writer.bytes(reader.field, reader.view());
    }
  }
  return writer.finish();
}

function nameOf(operation: ProtobufReader): string {
  let name = "";
  while (operation.next()) if (operation.field === 1) name = operation.text();
  return name;
}

test.each(models)("$name", async (model) => {
  const { directory, cases, signatureName } = model;
  const bytes = readFileSync(path.join(directory, "saved_model.pb"));
  const { graph } = readServingGraph(bytes, directory);
  const inGraph = new Set(Array.from(graph.nodes.values(), ({ op }) => op));
  const other = temporaryDirectory();
  for (const name of readdirSync(directory)) {
    if (name !== "saved_model.pb") symlinkSync(path.join(directory, name), path.join(other, name));
  }
  // Of SavedModel: meta_graphs, meta_info_def, stripped_op_list, op.
  const copy = copyOf(messageReader(bytes, directory), [2, 1, 2, 1], (name) => inGraph.has(name));
  writeFileSync(path.join(other, "saved_model.pb"), copy);
  const version = openModelVersion(other);
  const machine = await ProgramMachine.load(version);
  const answered = cases.filter(({ error }) => error === undefined);
  const oneOfEach = new Map(answered.map((each) => [each.signature_name ?? signatureName, each]));
  for (const [name, recorded] of oneOfEach) {
    const signature = machine.signature(name);
    const answer = await machine.run(signature, inputTensors(signature, recorded.inputs));

    expect(differenceOf(signature, answer, { model, recorded })).toBeUndefined();
  }
  version.close();
});
