// Entry of the process that looks for GPUs and sends its parent the result. A driver that crashes,
// hangs or leaves threads behind affects this process alone.

import process from "node:process";
import { surveyGpus } from "./gpu-survey.ts";
import { gpuOptionsFromEnvironment } from "./gpu-settings.ts";

void tell();

async function tell(): Promise<void> {
  const survey = await surveyGpus(gpuOptionsFromEnvironment());
  process.send?.(survey, () => process.exit(0));
}
