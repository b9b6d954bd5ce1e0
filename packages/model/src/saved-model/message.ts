// How the Protocol Buffers messages of a model's files are read. Every fault is DATA_LOSS with the
// file and the byte offset, which counts from the start of the outermost message even in a nested
// one.

import { ProtobufReader, WinnowError } from "@winnow/core";
import type { ProtobufFault } from "@winnow/core";
import type { RegionFile } from "../storage/region.ts";

const WIRE_NAMES = ["a varint", "8 bytes", "a length", "a group", "a group end", "4 bytes"];
const decoder = new TextDecoder();

/** Files of at least so many bytes are looked through before they are read whole. */
export const LARGE_BYTES: number = 2 ** 24;
/** Fields that are looked at; a graph is one of them, so that a whole model has few. */
const FIELDS_MAX = 1000;
/** Bytes of a field's tag and length, or number, at most. */
const FIELD_HEAD_BYTES = 20;

/**
 * The content of a file that is one message. What is no message, or ends early, is refused by the heads of its fields
 * before gigabytes of it are read.
 * @throws WinnowError DATA_LOSS, RESOURCE_EXHAUSTED over `bytesMax`, and as `RegionFile.read`
 */
export function readMessageFile(file: RegionFile, bytesMax: number): Uint8Array {
  if (file.size < LARGE_BYTES || file.size > bytesMax) return file.readAll(bytesMax);
  // The system gives memory to those pages only that are written to.
  const bytes = new Uint8Array(file.size);
  const reader = messageReader(bytes, file.name);
  for (let fields = 0; fields < FIELDS_MAX && reader.position < bytes.length; fields += 1) {
    const from = reader.position;
    file.read(from, bytes.subarray(from, Math.min(from + FIELD_HEAD_BYTES, bytes.length)));
    reader.next();
  }
  file.read(0, bytes);
  return bytes;
}

/** A cursor over `bytes` as one message; `file` is the name that error messages give. */
export function messageReader(bytes: Uint8Array, file: string): ProtobufReader {
  const refuse = (fault: ProtobufFault): WinnowError =>
    new WinnowError(
      "DATA_LOSS",
      `Cannot read ${file}: ${textOf(fault)} at byte ${fault.at}`,
      fault.kind === "text" ? { cause: fault.cause } : undefined,
    );
  return new ProtobufReader(bytes, { refuse, decoder, groups: "refused", prefixes: "long" });
}

function textOf(fault: ProtobufFault): string {
  switch (fault.kind) {
    case "varint":
      return "an unfinished number";
    case "tag":
      return "an impossible field";
    case "prefix":
      return "a length beyond 32 bits";
    case "wire":
      return `field ${fault.field} of unknown wire type ${fault.wire}`;
    case "size":
      return `field ${fault.field} of ${fault.size} bytes where ${fault.left} are left`;
    case "group":
      return "a group without an end";
    case "layout": {
      const { field, wire, expected } = fault;
      return `field ${field} holding ${WIRE_NAMES[wire]} where ${WIRE_NAMES[expected]} belongs`;
    }
    case "packed":
      return `packed field ${fault.field} with a part of a number`;
    case "integer":
      return "a number beyond 2^53";
    case "fields":
      return "too many fields";
    case "text":
      return "a text that is not UTF-8";
  }
}
