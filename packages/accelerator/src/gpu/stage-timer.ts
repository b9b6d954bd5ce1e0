// How long each stage of a pass takes on the device, by the device's timestamps. For measurements
// alone: each stage is then a compute pass of its own, which costs a little.

import { BUFFER_USAGE } from "./webgpu-api.ts";
import type {
  GpuBuffer,
  GpuComputePass,
  GpuConnection,
  GpuEncoder,
  GpuQuerySet,
} from "./webgpu-api.ts";

/** The stages of a pass, in order. */
const STAGES = ["scan", "select", "sift", "score", "order"] as const;

/** Bytes of the timestamps of a pass. */
export const STAGE_BYTES: number = STAGES.length * 16;

/** A stage of a pass. */
type Stage = (typeof STAGES)[number];

/** Nanoseconds on the device by stage. */
export type StageNs = Record<Stage, number>;

function noTime(): StageNs {
  return { scan: 0, select: 0, sift: 0, score: 0, order: 0 };
}

/** Opens the compute pass of each stage. */
export interface StageRecorder {
  stage(name: Stage): GpuComputePass;
  end(): void;
}

/** Puts all stages into one compute pass, without timestamps. */
export function untimed(encoder: GpuEncoder): StageRecorder {
  const pass = encoder.beginComputePass();
  return { stage: () => pass, end: () => pass.end() };
}

/** Timestamps around each stage, summed over passes until they are taken. */
export class StageTimer {
  readonly #querySet: GpuQuerySet;
  readonly #resolved: GpuBuffer;
  #sums: StageNs = noTime();

  constructor(connection: GpuConnection) {
    const { queryResolve, copySource } = BUFFER_USAGE;
    this.#querySet = connection.createQuerySet({ type: "timestamp", count: STAGES.length * 2 });
    this.#resolved = connection.createBuffer({
      size: STAGE_BYTES,
      usage: queryResolve | copySource,
    });
  }

  /** Records a pass stage by stage. */
  record(encoder: GpuEncoder): StageRecorder {
    let open: GpuComputePass | undefined;
    const querySet = this.#querySet;
    return {
      stage: (name) => {
        open?.end();
        const first = STAGES.indexOf(name) * 2;
        open = encoder.beginComputePass({
          timestampWrites: {
            querySet,
            beginningOfPassWriteIndex: first,
            endOfPassWriteIndex: first + 1,
          },
        });
        return open;
      },
      end: () => open?.end(),
    };
  }

  /** Copies the timestamps of the recorded pass to `target`, at a byte. */
  resolve(encoder: GpuEncoder, target: GpuBuffer, at: number): void {
    encoder.resolveQuerySet(this.#querySet, 0, STAGES.length * 2, this.#resolved, 0);
    encoder.copyBufferToBuffer(this.#resolved, 0, target, at, STAGE_BYTES);
  }

  /** Adds the timestamps of a pass, as they came back. */
  add(bytes: ArrayBuffer): void {
    const times = new BigUint64Array(bytes);
    for (const [index, stage] of STAGES.entries()) {
      this.#sums[stage] += Number(times[index * 2 + 1]! - times[index * 2]!);
    }
  }

  /** Nanoseconds by stage since the last call. */
  take(): Readonly<StageNs> {
    const sums = this.#sums;
    this.#sums = noTime();
    return sums;
  }

  /** Frees the buffers. */
  close(): void {
    this.#querySet.destroy();
    this.#resolved.destroy();
  }
}
