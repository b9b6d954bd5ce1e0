// How messages of gRPC clients are read: as strictly as TensorFlow Serving's own library reads them. A
// message that cannot be read is the client's fault. So is one with more fields or longer texts than any request has
// use for: each field takes two bytes to send, and 64 MiB of them would hold the event loop for a second.

import { ProtobufReader, WinnowError } from "@winnow/core";
import type { ProtobufFault, ProtobufRules } from "@winnow/core";

/** Fields of a message, with those of the messages in it. Values of tensors are not among them. */
const FIELDS_MAX = 2 ** 17;
/** Bytes of all texts of a message: names, a version, an id. */
const TEXT_BYTES_MAX = 2 ** 20;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const RULES: ProtobufRules = {
  refuse: (fault) => {
    if (fault.kind !== "text") return damaged(textOf(fault));
    return fault.cause instanceof WinnowError ? fault.cause : damaged(textOf(fault), fault.cause);
  },
  decoder: utf8,
  groups: "skipped",
  prefixes: "short",
};

/** A cursor over a client's message, whose faults are INVALID_ARGUMENT. */
export function readerOf(bytes: Uint8Array): ProtobufReader {
  if (bytes.length <= FIELDS_MAX) return new ProtobufReader(bytes, RULES);
  const fields = { left: FIELDS_MAX, problem: `more than ${FIELDS_MAX} fields` };
  return new ProtobufReader(bytes, { ...rulesWithin(fields), decoder: new BoundedDecoder() });
}

/** How many more fields are read, and what is wrong with a message that has more. */
export interface FieldBudget {
  left: number;
  readonly problem: string;
}

/** A cursor over the fields of a tensor, which has a field for each of its strings. Default: any number of them. */
export function valuesReaderOf(bytes: Uint8Array, fields?: FieldBudget): ProtobufReader {
  return new ProtobufReader(bytes, fields === undefined ? RULES : rulesWithin(fields));
}

function rulesWithin(fields: FieldBudget): ProtobufRules {
  const refuse: ProtobufRules["refuse"] = (fault) =>
    fault.kind === "fields" ? damaged(fields.problem) : RULES.refuse(fault);
  return { ...RULES, fields, refuse };
}

/** Decodes the texts of one message. */
class BoundedDecoder {
  #left = TEXT_BYTES_MAX;

  decode(bytes: Uint8Array): string {
    this.#left -= bytes.length;
    if (this.#left >= 0) return utf8.decode(bytes);
    throw damaged(`texts of more than ${TEXT_BYTES_MAX} bytes`);
  }
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
    case "fields":
      return "too many fields";
    case "text":
      return "a text that is not UTF-8";
  }
}
