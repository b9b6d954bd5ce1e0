// An error as a gRPC status. Details travel in a header. They are cut at 1024 bytes, as TensorFlow Serving
// does: grpc-js connections get stuck over longer ones (grpc-node #2399).

import { withoutKeys } from "@winnow/cluster";
import { grpcStatusOf } from "@winnow/core";
import type { WinnowError } from "@winnow/core";

/** What an answer says about a failure. */
export interface FailureStatus {
  readonly code: number;
  readonly details: string;
}

const DETAIL_BYTES_MAX = 1024;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The status of an expected failure. */
export function failureStatus(error: WinnowError): FailureStatus {
  return { code: grpcStatusOf(error.code), details: cutDetails(withoutKeys(error.message)) };
}

/** A text of at most 1024 bytes of UTF-8, with a mark if it was longer; always well-formed. */
export function cutDetails(text: string): string {
  const bytes = encoder.encode(text);
  if (bytes.length <= DETAIL_BYTES_MAX) return decoder.decode(bytes);
  let end = DETAIL_BYTES_MAX;
  while ((bytes[end]! & 0xc0) === 0x80) end--;
  return `${decoder.decode(bytes.subarray(0, end))}...TRUNCATED`;
}
