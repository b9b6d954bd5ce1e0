// Keys and identifiers on the wire: byte strings, or int64 whatever integer type the table has.

import { WinnowError, tensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import type { Keys, Keys__Output } from "./generated/winnow/shard/v1/Keys.ts";
import { bytesOf, malformed, packStrings, unpackInt64, unpackStrings } from "./packed-bytes.ts";

/** Packs string, int32 or int64 keys. */
export function encodeKeys(keys: Tensor): Keys {
  if (keys.dtype === "string") return { strings: packStrings(keys.data) };
  if (keys.dtype === "int64") return { integers: bytesOf(keys.data) };
  if (keys.dtype === "int32") return { integers: bytesOf(BigInt64Array.from(keys.data, BigInt)) };
  throw new WinnowError("INVALID_ARGUMENT", `A key cannot be of type ${keys.dtype}`);
}

/** string or int64 `[keys]`. @throws WinnowError INVALID_ARGUMENT */
export function decodeKeys(message: Keys__Output | null | undefined, field: string): Tensor {
  if (message?.strings) {
    const column = unpackStrings(message.strings, field);
    return tensor("string", [column.length], column);
  }
  if (message?.integers) {
    const values = unpackInt64(message.integers, field);
    return tensor("int64", [values.length], values);
  }
  throw malformed(field, "has no keys");
}
