// Entry of the reader thread: opens model directories and reads them for the compute thread that
// started it.

import { parentPort } from "node:worker_threads";

import { openModelVersion } from "@winnow/model";

import { LocalModelReader } from "./model-reader.ts";
import { serveReader } from "./reader-channel.ts";

if (parentPort === null) throw new RangeError("this file runs in a thread");
serveReader(parentPort, new LocalModelReader(openModelVersion));
