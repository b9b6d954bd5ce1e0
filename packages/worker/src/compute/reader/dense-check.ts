// Whether ONNX Runtime takes the dense parts of a version, asked before the version is opened: routers run
// them, but it is by what workers say that a version becomes the default and the one before it is let go
// of. In a process that ends with the check, so that a graph that ends ONNX Runtime is refused as well.

import type { DenseEngine } from "@winnow/accelerator";
import { WinnowError, excerpt } from "@winnow/core";

import type { CheckProgram } from "./model-reader.ts";

/**
 * The check of dense parts with engines of `start`. @throws WinnowError INVALID_ARGUMENT. That this machine
 * has no memory for a part, or cannot start the process, is not held against the version: it is routers
 * that run it.
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
