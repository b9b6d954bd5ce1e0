// The thread that parses large bodies, one at a time. A fault of the body is reported to its sender; any
// other error is a bug of the parser, reported with its stack. The thread ends when its port closes.

import { parentPort, workerData } from "node:worker_threads";
import { WinnowError, answerCalls } from "@winnow/core";
import type { ThreadAnswer } from "@winnow/core";
import { readContent } from "./body-reading.ts";
import { JsonReader } from "../json/json-reader.ts";
import { packContent } from "./parser-messages.ts";
import type { ParserAnswer, ParserRequest, ParserSettings } from "./parser-messages.ts";

const { limits } = workerData as ParserSettings;

if (parentPort === null) throw new RangeError("this file runs in a thread");
answerCalls<ParserRequest>(parentPort, { perform: parse });

/** Reads a body. @throws WinnowError where the body is refused */
function parse({ bytes, question }: ParserRequest): ThreadAnswer {
  try {
    // Each body gets a new reader, so that no memory of a large body is kept.
    const document = new JsonReader({ valuesMax: limits.jsonValuesMax });
    const { packed, buffers } = packContent(readContent(document, bytes, { question, limits }));
    return {
      value: { kind: "content", content: packed } satisfies ParserAnswer,
      transfer: buffers,
    };
  } catch (error) {
    if (error instanceof WinnowError) throw error;
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { value: { kind: "fault", message } satisfies ParserAnswer };
  }
}
