// What a machine has for the GPU accelerator and lacks, as `winnow doctor` finds it, for a machine where
// only the GPU's part of Winnow was unpacked. Exit status 1 if no GPU can be used.
//
//   node gpu-doctor.mjs [--out doctor.json]

import process from "node:process";
import { writeWhole } from "./gpu-bench/figures.mjs";
import { gpuOptionsFromEnvironment, surveyGpus } from "./gpu-bench/compiled-code.mjs";
import { scriptOptions } from "./script-options.mjs";

const argument = scriptOptions({ out: { type: "string" } });
const survey = await surveyGpus(gpuOptionsFromEnvironment());
if (argument.out !== undefined) writeWhole(argument.out, survey);
for (const { name, driver, isSoftware, features, limits } of survey.gpus) {
  console.log(`GPU ${name}${isSoftware ? " (software)" : ""}: ${driver}`);
  console.log(`  ${features.join(", ")}`);
  console.log(
    `  largest buffer ${limits.maxBufferSize}, bound ${limits.maxStorageBufferBindingSize}`,
  );
}
if (survey.gpus.length === 0) console.log("no GPU is shown by WebGPU");
console.log(survey.fault ?? `usable: ${survey.opened}; a small search equals the reference`);
process.exit(survey.fault === undefined ? 0 : 1);
