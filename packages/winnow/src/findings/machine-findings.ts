// What the state of a machine means for Winnow: good, worth a note, or a fault. `commands/doctor.ts` examines
// the machine.

import process from "node:process";
import type { AcceleratorKind, GpuSurvey, SurveyedGpu } from "@winnow/accelerator";

/** The result of one check. */
export interface Finding {
  readonly subject: string;
  /** `note`: not as good as possible, or not needed for what was asked. */
  readonly state: "good" | "note" | "fault";
  readonly text: string;
  readonly details?: readonly string[];
}

const NODE_LEAST = [20, 3] as const;

/** Whether this version of Node is new enough. */
export function nodeFinding(version: string): Finding {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [leastMajor, leastMinor] = NODE_LEAST;
  const isOld = major < leastMajor || (major === leastMajor && minor < leastMinor);
  const text = `${version}, ${process.platform} ${process.arch}`;
  if (!isOld) return { subject: "Node", state: "good", text };
  const needed = `Winnow needs ${NODE_LEAST.join(".")} or newer`;
  return { subject: "Node", state: "fault", text: `${text}: ${needed}` };
}

/** Compares the quota of processor time, in cores, with the number of cores. */
export function coresFinding(cores: number, quota: number | undefined): Finding {
  const subject = "cores";
  if (quota === undefined || quota >= cores) {
    return { subject, state: "good", text: `${cores} for this process` };
  }
  const threads = Math.max(1, Math.floor(quota));
  const text = `${cores} are seen, but the cgroup allows the time of ${quota}: start workers with --threads ${threads}`;
  return { subject, state: "note", text };
}

/** Whether a GPU can be used; a fault only if one is asked for. */
export function gpuFinding(survey: GpuSurvey, accelerator: AcceleratorKind): Finding {
  const details = survey.gpus.flatMap(gpuDetails);
  const subject = "GPU";
  if (survey.opened !== undefined) {
    const text = `${survey.opened}: opened, answers equal the reference bit for bit`;
    return { subject, state: "good", text, details };
  }
  const isAsked = accelerator === "gpu";
  const text = survey.fault ?? "none";
  return { subject, state: isAsked ? "fault" : "note", text, details };
}

const LIMITS_SHOWN = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupsPerDimension",
];

function gpuDetails(gpu: SurveyedGpu): string[] {
  const limits = LIMITS_SHOWN.map((name) => `${name} ${gpu.limits[name] ?? "?"}`);
  const kind = gpu.isSoftware ? "software" : "hardware";
  return [
    `${gpu.name} (${kind}; ${gpu.vendor} ${gpu.architecture}; ${gpu.driver})`,
    `  features: ${gpu.features.join(", ")}`,
    `  limits: ${limits.join(", ")}`,
  ];
}
