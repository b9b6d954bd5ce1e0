// Which ONNX Runtime is installed, without loading it: its native library takes 20 ms and 60 MB.

import { createRequire } from "node:module";

/** The version of the package. @throws Error if it is not installed */
export function onnxRuntimeVersion(): string {
  const { version } = createRequire(import.meta.url)("onnxruntime-node/package.json") as {
    readonly version: string;
  };
  return version;
}
