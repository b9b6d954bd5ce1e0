// Copies a message like a real connection: the receiver gets its own bytes. Without this, a worker that
// transfers an array to its compute thread would take it away from the router.

import { StringColumn, WinnowError } from "@winnow/core";

/** A deep copy of plain data, typed arrays, string columns and errors. */
export function copied<Value>(value: Value): Value {
  return copyOf(value) as Value;
}

function copyOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (ArrayBuffer.isView(value)) return (value as Uint8Array).slice();
  if (Array.isArray(value)) return value.map(copyOf);
  if (value instanceof StringColumn) {
    return value.take(Array.from({ length: value.length }, (_, index) => index));
  }
  if (value instanceof WinnowError) return new WinnowError(value.code, value.message);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, copyOf(each)]));
}
