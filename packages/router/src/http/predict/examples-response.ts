// The body of an answer to classify or regress, byte for byte as TensorFlow Serving lays it out (util/json_tensor.cc,
// MakeJsonFromClassificationResult and MakeJsonFromRegressionResult):
//
//   {                                                           {
//       "results": [[["drama", 0.75], ["war", 0.25]]                "results": [3.5, 2.25]
//       ]                                                       }
//   }

import { nextLoopTurn } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { classificationsOf, regressionsOf } from "../../examples/example-results.ts";
import type { Classifications } from "../../examples/example-results.ts";
import type { ExampleMethod } from "../../examples/example-signature.ts";
import { FLOAT64_BYTES_MAX, writeFloat32 } from "../json/decimal-text.ts";
import { JsonWriter } from "../json/json-writer.ts";

/** Bytes that are written before other work may run. */
const PIECE_BYTES = 256 * 1024;

/** What is written. */
export interface ExampleResults {
  readonly method: ExampleMethod;
  readonly outputs: ReadonlyMap<string, Tensor>;
  readonly instances: number;
}

/**
 * Writes the body of an answer, a long one in pieces.
 * @throws WinnowError INVALID_ARGUMENT for outputs that are no such results, RESOURCE_EXHAUSTED if too long
 */
export async function writeExampleResults(
  { method, outputs, instances }: ExampleResults,
  limits: { readonly answerBytesMax: number },
): Promise<Buffer> {
  const writer = new JsonWriter({ bytesMax: limits.answerBytesMax });
  writer.open("{");
  writer.text("results");
  if (method === "regress") writeRegressions(writer, regressionsOf(outputs, instances));
  else await writeClassifications(writer, classificationsOf(outputs, instances));
  writer.close();
  return writer.finish();
}

/** One value for each instance, of which there are some thousands at most. */
function writeRegressions(writer: JsonWriter, values: Float32Array): void {
  writer.singleLine = true;
  writer.open("[");
  for (const value of values) writeNumber(writer, value);
  writer.close();
}

async function writeClassifications(writer: JsonWriter, found: Classifications): Promise<void> {
  writer.open("[");
  let turnAt = PIECE_BYTES;
  for (let instance = 0; instance < found.instances; instance += 1) {
    writer.singleLine = true;
    writer.open("[");
    for (let each = 0; each < found.classes; each += 1) {
      writeClass(writer, found, instance * found.classes + each);
      if (writer.at <= turnAt) continue;
      await nextLoopTurn();
      turnAt = writer.at + PIECE_BYTES;
    }
    writer.close();
    writer.singleLine = false;
  }
  writer.close();
}

const NO_LABEL = new Uint8Array();

function writeClass(writer: JsonWriter, { labels, scores }: Classifications, at: number): void {
  writer.open("[");
  writer.string(labels?.at(at) ?? NO_LABEL);
  writeNumber(writer, scores?.[at] ?? 0);
  writer.close();
}

function writeNumber(writer: JsonWriter, value: number): void {
  writer.beginValue();
  writer.reserve(FLOAT64_BYTES_MAX);
  writer.at = writeFloat32(writer.buffer, writer.at, value);
}
