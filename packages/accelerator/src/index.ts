// Entrance of the package: devices that hold rows and search them exactly, and the dense engine.

export type {
  Accelerator,
  AcceleratorKind,
  AcceleratorMemory,
  LoadShape,
  Resident,
  RowFilter,
  TopKQuery,
} from "./accelerator.ts";
export type { AcceleratorOptions, InstructionSet } from "./accelerator-options.ts";
export { canonicalScore, widenQueries } from "./canonical-score.ts";
export type { WideQuery } from "./canonical-score.ts";
export { createAccelerator } from "./create-accelerator.ts";
export type { OpenedAccelerator } from "./create-accelerator.ts";
export { codeBytesOf } from "./cpu/code-bytes.ts";
export { openInlineSearch } from "./cpu/inline-search.ts";
export type { InlineFilter, InlineSearch, InlineTable } from "./cpu/inline-search.ts";
export { WaitGuard } from "./cpu/wait-guard.ts";
export { surveyCpu } from "./cpu/cpu-survey.ts";
export type { CpuSurvey } from "./cpu/cpu-survey.ts";
export { createRowChecks } from "./cpu/row-checks.ts";
export type { GpuSurvey, SurveyedGpu } from "./gpu/gpu-survey.ts";
export { startGpuSurvey } from "./gpu/survey-start.ts";
export type { DenseEngine, DenseModel, DenseOwner } from "./dense/dense-engine.ts";
export type { DenseShapes } from "./dense/dense-frames.ts";
export { createDenseEngine } from "./dense/onnx-engine.ts";
export type { DenseEngineOptions, DenseLaneName, DenseObserver } from "./dense/onnx-engine.ts";
export { onnxRuntimeVersion } from "./dense/onnx-version.ts";
export { createFolderLook } from "./folder-look.ts";
export type { AskedFolder, FolderEntry, LookIntoFolders } from "./folder-look.ts";
export { exitAtOnce } from "./process-exit.ts";
export { createReferenceAccelerator } from "./reference/accelerator.ts";
