// The status of a model's versions as TensorFlow Serving answers it: protobuf JSON, indented by one
// space, with a line break at the end; int64 as strings.

import type { VersionStatus } from "../../predictor.ts";

/** The document for these versions, which are in descending order. */
export function statusDocument(versions: readonly VersionStatus[]): Buffer {
  const document = {
    model_version_status: versions.map((status) => ({
      version: String(status.version),
      state: status.state,
      status: { error_code: status.errorCode, error_message: status.errorMessage },
    })),
  };
  return Buffer.from(`${protobufJson(document)}\n`);
}

/** JSON as protobuf prints it with whitespace: angle brackets and DEL are escaped. */
export function protobufJson(value: unknown): string {
  return JSON.stringify(value, null, 1).replace(
    /[<>\u007f]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
