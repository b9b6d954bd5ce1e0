// Entry of the reader thread: opens model directories and reads them for the compute thread that
// started it.

import { parentPort } from "node:worker_threads";

import { createRowChecks } from "@winnow/accelerator";
import { openModelVersion } from "@winnow/model";

import { LocalModelReader } from "./model-reader.ts";
import { serveReader } from "./reader-channel.ts";

if (parentPort === null) throw new RangeError("this file runs in a thread");
const checks = createRowChecks();
const reader = new LocalModelReader((directory) => openModelVersion(directory, checks));
serveReader(parentPort, reader);
