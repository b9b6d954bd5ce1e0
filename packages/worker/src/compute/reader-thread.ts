// Entry of the reader thread: opens and reads model directories for the compute thread, which starts this
// thread with its settings.

import { parentPort, workerData } from "node:worker_threads";

import type { ReaderSettings } from "./compute-thread-data.ts";
import { directoryReader } from "./reader/directory-reader.ts";
import { giveWay } from "./reader/give-way.ts";
import { keptFolder } from "./reader/kept-shapes.ts";
import { serveReader } from "./reader/reader-channel.ts";
import { freeUnheldArrays } from "./unheld-arrays.ts";

if (parentPort === null) throw new RangeError("this file runs in a thread");
const reader = directoryReader(workerData as ReaderSettings, keptFolder());
serveReader(parentPort, reader, { onClosed: freeUnheldArrays, giveWay });
