// Whether ONNX Runtime can load the dense parts of a version, checked before the version is opened. Routers
// run these parts, but workers' announcements decide which version becomes the default and when the one
// before it is given up. The check runs in a process that ends with it, so that a graph that crashes ONNX
// Runtime is refused as well.

import type { DenseEngine } from "@winnow/accelerator";
import { WinnowError, excerpt } from "@winnow/core";

import type { CheckProgram } from "./model-reader.ts";

/**
 * The check of dense parts, with engines made by `start`. A machine without enough memory for a part, or one
 * that cannot start the process, does not fail the version: routers run it, not this worker.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function denseCheck(start: () => DenseEngine): CheckProgram {
  return async ({ denseModels }, directory) => {
    if (denseModels.length === 0) return;
    const engine = start();
    try {
      for (const onnx of denseModels) {
        const model = await engine.load(onnx, { model: directory, version: 0 });
        await model.release();
      }
    } catch (error) {
      if (!(error instanceof WinnowError) || error.code !== "INVALID_ARGUMENT") return;
      const text = `Cannot serve ${excerpt(directory)}: ${error.message}`;
      throw new WinnowError("INVALID_ARGUMENT", text, { cause: error });
    } finally {
      await engine.close();
    }
  };
}
