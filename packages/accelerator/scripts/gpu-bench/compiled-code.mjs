// The compiled code as the benchmark uses it. Without an installed project, the one import between
// packages is resolved to the package beside this one, and webgpu lies where the scripts are.

import { register } from "node:module";

const core = new URL("../../../core/dist/index.js", import.meta.url).href;
register(
  `data:text/javascript,${encodeURIComponent(`
    export async function resolve(specifier, context, next) {
      try { return await next(specifier, context); }
      catch (error) {
        if (specifier === "@winnow/core") return { url: ${JSON.stringify(core)}, shortCircuit: true };
        if (specifier !== "webgpu") throw error;
        return next(specifier, { ...context, parentURL: ${JSON.stringify(import.meta.url)} });
      }
    }`)}`,
);

const from = (file) => import(new URL(`../../dist/${file}`, import.meta.url).href);

export const { openGpuDevice } = await from("gpu/device/device.js");
export const { listGpus, surveyGpus } = await from("gpu/gpu-survey.js");
export const { createGpuAccelerator } = await from("gpu/accelerator.js");
export const { gpuOptionsFromEnvironment, resolveGpuOptions } = await from("gpu/gpu-settings.js");
export const { createReferenceAccelerator } = await from("reference/accelerator.js");
export const { canonicalScore, widenQueries } = await from("canonical-score.js");
export const { CandidateHeap } = await from("reference/candidate-heap.js");
