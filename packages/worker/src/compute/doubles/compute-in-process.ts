// The compute side on the test's own thread, behind the same message channel as in production, so
// that transfers and clones happen as they do there.

import { MessageChannel } from "node:worker_threads";

import { createReferenceAccelerator, openInlineSearch } from "@winnow/accelerator";
import type { Accelerator } from "@winnow/accelerator";
import { systemClock } from "@winnow/core";
import type { Clock } from "@winnow/core";
import type { ModelVersion } from "@winnow/model";

import { serveCompute } from "../compute-channel.ts";
import { ComputeClient } from "../compute-client.ts";
import { ComputeHost } from "../compute-host.ts";
import { LocalModelReader } from "../reader/model-reader.ts";
import { ProgressCounter } from "../progress-counter.ts";
import { RemoteModelReader, serveReader } from "../reader/reader-channel.ts";

/** What the compute side of a test is made of. */
export interface InProcessParts {
  readonly openModel: (directory: string) => ModelVersion;
  readonly accelerator?: Accelerator;
  readonly exclusionBytesMax?: number;
  readonly filterBytesMax?: number;
  /** Default 0: every scan crosses the channel. */
  readonly inlineScanValuesMax?: number;
  /** Called by either side when a version has been closed. */
  readonly onClosed?: (side: "compute" | "reader") => void;
  /** Of the event loop's side. */
  readonly clock?: Clock;
}

/** Starts it. */
export function computeInProcess(parts: InProcessParts): ComputeClient {
  const { port1, port2 } = new MessageChannel();
  const progress = new ProgressCounter();
  const capacityBytes = 2 ** 30;
  const accelerator = parts.accelerator ?? createReferenceAccelerator({ capacityBytes });
  const host = new ComputeHost({
    accelerator,
    reader: remoteReader(parts),
    progress,
    clock: systemClock,
    exclusionBytesMax: parts.exclusionBytesMax ?? 2 ** 20,
    filterBytesMax: parts.filterBytesMax ?? 2 ** 20,
    onClosed: () => parts.onClosed?.("compute"),
  });
  serveCompute(port1, host);
  return new ComputeClient({
    port: port2,
    progress,
    clock: parts.clock ?? systemClock,
    inline: { valuesMax: parts.inlineScanValuesMax ?? 0, openSearch: () => openInlineSearch() },
    device: { accelerator: accelerator.kind, device: accelerator.device },
    memory: host.memory,
    end: async () => port1.close(),
  });
}

/** Reading behind its channel as well. */
function remoteReader({ openModel, onClosed }: InProcessParts): RemoteModelReader {
  const { port1, port2 } = new MessageChannel();
  serveReader(port1, new LocalModelReader(openModel), { onClosed: () => onClosed?.("reader") });
  return new RemoteModelReader(port2, async () => port1.close());
}
