// The border between the event loop and the compute thread: the requests, the memory that is transferred with
// each, and the answers. Every answer also carries the memory figures, so that nobody has to ask for them.

import { answerCalls, transferOf } from "@winnow/core";
import type { ThreadPort, ThreadProblem } from "@winnow/core";

import type { ComputeHost } from "./compute-host.ts";
import type {
  ComputeMemory,
  ContentHandle,
  LookupBatch,
  LookupBatchAnswer,
  GatherAnswer,
  ReplicaName,
  TableTarget,
  TopKBatch,
  TopKScan,
  VersionDirectory,
} from "./compute.ts";
import type { AdmittedNews } from "./inline/shared-rows.ts";
import { buffersOf } from "./packed-keys.ts";

/** A request to the compute thread. */
export type ComputeRequest =
  | {
      readonly kind: "open";
      readonly from: VersionDirectory;
      readonly siblings: readonly ContentHandle[];
      /** Whether searches or lookups have been answered, by whichever thread. */
      readonly isServing: boolean;
    }
  | {
      readonly kind: "load";
      readonly name: ReplicaName;
      readonly rowsOf?: ContentHandle | undefined;
    }
  | { readonly kind: "release"; readonly name: ReplicaName }
  | { readonly kind: "close"; readonly handle: ContentHandle }
  | { readonly kind: "program"; readonly handle: ContentHandle; readonly tableBytesMax: number }
  | { readonly kind: "filters"; readonly target: TableTarget; readonly texts: readonly string[] }
  | { readonly kind: "topK"; readonly batch: TopKBatch }
  | { readonly kind: "lookup"; readonly batch: LookupBatch }
  | { readonly kind: "shutdown" };

/**
 * Sent beside the answers: the memory figures with each answer, and, unasked, that the device is lost, and
 * which copies the event loop may search.
 */
export type ComputeAside =
  | { readonly memory: ComputeMemory }
  | { readonly lost: ThreadProblem }
  | AdmittedNews;

/** Answers requests that arrive on a port, until it is closed. */
export function serveCompute(port: ThreadPort, host: ComputeHost): void {
  const tell = answerCalls<ComputeRequest, ComputeAside>(port, {
    perform: async (request, signal) => {
      const value = await perform(host, request, signal);
      return { value, transfer: answerBuffers(request.kind, value) };
    },
    aside: () => ({ memory: host.memory }),
  });
  host.onAdmittedNews(tell);
  void host.lost.then(({ code, message }) => tell({ lost: { code, message } }));
}

async function perform(
  host: ComputeHost,
  request: ComputeRequest,
  signal: AbortSignal,
): Promise<unknown> {
  switch (request.kind) {
    case "open":
      if (request.isServing) host.beginsToServe();
      return host.open(request.from, request.siblings);
    case "load":
      return host.load(request.name, request.rowsOf);
    case "release":
      return host.release(request.name);
    case "close":
      return host.close(request.handle);
    case "program":
      return host.program(request.handle, request.tableBytesMax);
    case "filters":
      return host.prepareFilters(request.target, request.texts, signal);
    case "topK":
      return host.topK(request.batch, signal);
    case "lookup":
      return host.lookup(request.batch);
    case "shutdown":
      return host.shutdown();
  }
}

/** The buffers that are transferred with a request: its sender can no longer use them. */
export function requestBuffers(request: ComputeRequest): ArrayBuffer[] {
  if (request.kind === "topK") {
    const { asks, vectors, target } = request.batch;
    const ids = asks.flatMap(({ excluded, included = [] }) =>
      [...excluded, ...included].flatMap(buffersOf),
    );
    return transferOf([vectors.buffer, target.partitions.buffer, ...ids]);
  }
  if (request.kind === "lookup") {
    return transferOf(request.batch.asks.flatMap(({ keys }) => buffersOf(keys)));
  }
  return [];
}

function answerBuffers(kind: ComputeRequest["kind"], value: unknown): ArrayBuffer[] {
  if (kind === "topK") {
    const { block, ids, attributes } = value as TopKScan;
    const { counts, scores, rows } = block;
    const buffers = [counts.buffer, scores.buffer, rows.buffer];
    if (attributes !== undefined) buffers.push(attributes.offsets.buffer, attributes.bytes.buffer);
    return transferOf(ids === undefined ? buffers : [...buffers, ...buffersOf(ids)]);
  }
  if (kind === "lookup")
    return transferOf((value as LookupBatchAnswer).answers.flatMap(vectorBuffer));
  if (kind === "program") return [(value as Uint8Array).buffer as ArrayBuffer];
  return [];
}

function vectorBuffer(part: GatherAnswer): ArrayBufferLike[] {
  return "vectors" in part ? [part.vectors.buffer] : [];
}
