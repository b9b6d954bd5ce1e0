// The thread that parses large bodies, one at a time. What is wrong with a body is an answer; any
// other error is a fault of the parser, and an answer too. It ends when its port closes.

import { parentPort, workerData } from "node:worker_threads";
import { WinnowError } from "@winnow/core";
import { readContent } from "./body-reading.ts";
import { JsonReader } from "../json/json-reader.ts";
import { packContent } from "./parser-messages.ts";
import type { ParserAnswer, ParserRequest, ParserSettings } from "./parser-messages.ts";

const { limits } = workerData as ParserSettings;

parentPort?.on("message", ({ bytes, question }: ParserRequest) => {
  try {
    // A reader of its own for each, so that nothing is kept of a large one.
    const document = new JsonReader({ valuesMax: limits.jsonValuesMax });
    const { packed, buffers } = packContent(readContent(document, bytes, { question, limits }));
    answer({ kind: "content", content: packed }, buffers);
  } catch (error) {
    if (error instanceof WinnowError) {
      answer({ kind: "refused", code: error.code, message: error.message });
    } else {
      const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
      answer({ kind: "fault", message });
    }
  }
});

function answer(given: ParserAnswer, buffers: readonly ArrayBuffer[] = []): void {
  parentPort?.postMessage(given, buffers);
}
