// `pipeline.yaml` → a checked pipeline. Every error names the line and the field. docs/pipeline.schema.json
// is its JSON Schema.
//
//   inputs: { user: string }
//   items: string
//   stages:
//     - retrieve: { model: movies, k: 500, inputs: { user_id: user } }
//     - filter: { kids: false }
//     - rank: { model: ranking, inputs: { user_id: request.user, movie_title: item }, heads: { ctr: output_2 } }
//     - score: 0.7 * ctr + 0.3 * score
//     - limit: 20

import { excerpt, isDtype } from "@winnow/core";
import type { Dtype, Pipeline } from "@winnow/core";
import { readStages } from "./stage-reading.ts";
import type { PipelineInput } from "./stage-reading.ts";
import { yamlDocument } from "./yaml-fields.ts";
import type { Field } from "./yaml-fields.ts";

/** The file that makes a version directory a pipeline. */
export const PIPELINE_FILE = "pipeline.yaml";
/** Pipelines that people write are shorter. */
export const PIPELINE_BYTES_MAX: number = 64 * 1024;

/** The longest list of values that an input may declare for each instance. */
const LIST_LENGTH_MAX = 4096;

/** The content of the file. */
export interface PipelineDescription {
  readonly inputs: ReadonlyMap<string, PipelineInput>;
  /** Dtype of the item ids. */
  readonly items: Dtype;
  readonly pipeline: Pipeline;
}

/**
 * Reads a pipeline. `readList`: the content of a list of ids beside the file.
 * @throws WinnowError INVALID_ARGUMENT naming file, line and field
 */
export function parsePipeline(
  content: Uint8Array,
  readList: (name: string) => Uint8Array,
): PipelineDescription {
  const fields = yamlDocument(content, PIPELINE_FILE).members([
    "inputs",
    "items",
    "stages",
    "outputs",
  ]);
  const given = fields.needed("inputs");
  const entries = given.members().entries();
  if (entries.length === 0) throw given.refused("names no input");
  const inputs = new Map(entries.map(([name, field]) => [name, readInputType(field)]));
  const declared = fields.get("items");
  const items = declared === undefined ? "string" : readDtype(declared);
  const stages = readStages(fields.needed("stages"), { inputs, items, readList });
  return {
    inputs,
    items,
    pipeline: { stages, outputs: readOutputs(fields.get("outputs")) },
  };
}

/** One value for each instance, or a list of them. */
function readInputType(field: Field): PipelineInput {
  if (field.scalar() !== undefined) return { dtype: readDtype(field), shape: [-1] };
  const fields = field.members(["list", "length"]);
  const length = fields.get("length")?.integer(1, LIST_LENGTH_MAX) ?? -1;
  return { dtype: readDtype(fields.needed("list")), shape: [-1, length] };
}

function readOutputs(field: Field | undefined): Pipeline["outputs"] {
  const names = field?.members(["scores", "ids"]);
  const scores = names?.get("scores")?.text() ?? "output_1";
  const ids = names?.get("ids")?.text() ?? "output_2";
  if (field !== undefined && scores === ids) throw field.refused("names both outputs the same");
  return { scores, ids };
}

function readDtype(field: Field): Dtype {
  const text = field.text();
  if (isDtype(text)) return text;
  throw field.refused(`is "${excerpt(text)}", which is no dtype; say string, int64 or float32`);
}
