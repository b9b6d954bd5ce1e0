// How messages of gRPC clients are read: as strictly as TensorFlow Serving's own library reads them. A
// message that cannot be read is the client's fault.

import { ProtobufReader, WinnowError } from "@winnow/core";
import type { ProtobufFault, ProtobufRules } from "@winnow/core";

const RULES: ProtobufRules = {
  refuse: (fault) => damaged(textOf(fault), fault.kind === "text" ? fault.cause : undefined),
  decoder: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }),
  groups: "skipped",
  prefixes: "short",
};

/** A cursor over a client's message, whose faults are INVALID_ARGUMENT. */
export function readerOf(bytes: Uint8Array): ProtobufReader {
  return new ProtobufReader(bytes, RULES);
}

/** The error that a client gets for a message that cannot be read. */
export function damaged(what: string, cause?: unknown): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `Cannot read the message: ${what}`, { cause });
}

function textOf(fault: ProtobufFault): string {
  switch (fault.kind) {
    case "varint":
      return "a number without an end";
    case "tag":
      return "a field without a number";
    case "prefix":
      return "a length beyond 32 bits";
    case "wire":
      return "a field of no known layout";
    case "size":
      return "a value that ends after its message";
    case "group":
      return "a group without an end";
    case "layout":
      return `field ${fault.field} in an unexpected layout`;
    case "packed":
      return "values that are cut off";
    case "integer":
      return "a number beyond 2^53";
    case "text":
      return "a text that is not UTF-8";
  }
}
