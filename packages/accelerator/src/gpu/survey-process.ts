// Entry of a process of its own that looks for GPUs and tells its parent: a driver that crashes, hangs
// or leaves threads behind takes this process along, and nothing else.

import process from "node:process";
import { surveyGpus } from "./gpu-survey.ts";
import { gpuOptionsFromEnvironment } from "./gpu-settings.ts";

const survey = await surveyGpus(gpuOptionsFromEnvironment());
process.send?.(survey, () => process.exit(0));
