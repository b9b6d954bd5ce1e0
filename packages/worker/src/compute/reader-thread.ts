// Entry of the reader thread: opens model directories and reads them for the compute thread that
// started it, which hands it its settings.

import { parentPort, workerData } from "node:worker_threads";

import { createDenseEngine, createRowChecks } from "@winnow/accelerator";
import { openModelVersion } from "@winnow/model";

import type { ReaderSettings } from "./compute-thread-data.ts";
import { denseCheck } from "./reader/dense-check.ts";
import { LocalModelReader } from "./reader/model-reader.ts";
import { serveReader } from "./reader/reader-channel.ts";

if (parentPort === null) throw new RangeError("this file runs in a thread");
const options = { ...(workerData as ReaderSettings), checks: createRowChecks() };
const reader = new LocalModelReader(
  (directory) => openModelVersion(directory, options),
  denseCheck(() => createDenseEngine()),
);
serveReader(parentPort, reader);
