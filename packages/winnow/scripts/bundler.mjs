// A folder of files that the bundler joins. It is made beside the one that is there and then takes its
// place: nobody sees half of one. Where the bundler does not load, that is said in one line, and the
// build succeeds.

import { existsSync, renameSync, rmSync } from "node:fs";
import process from "node:process";

/** Packages that are native, or used by few processes: the bundle looks them up at run time. */
export const EXTERNAL_PACKAGES = [
  "@aws-sdk/client-s3",
  "onnxruntime-node",
  "webgpu",
  "@grpc/proto-loader",
];

/** Has `make(rolldown, draft)` write `folder`; `loss` says what is missing without the bundler. */
export async function bundleInto(folder, loss, make) {
  const rolldown = await loadBundler(loss);
  if (rolldown === undefined) return;
  const draft = `${folder}.${process.pid}`;
  const old = `${draft}.old`;
  try {
    await make(rolldown, draft);
    if (existsSync(folder)) renameSync(folder, old);
    renameSync(draft, folder);
  } finally {
    remove(draft);
    remove(old);
  }
}

/** Removes a folder into which processes that run may still write, as they do to keep bytecode. */
function remove(folder) {
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
}

async function loadBundler(loss) {
  try {
    return (await import("rolldown")).rolldown;
  } catch (error) {
    const reason = error instanceof Error ? error.message.split("\n")[0] : String(error);
    process.stderr.write(`${loss}: ${reason}\n`);
    return undefined;
  }
}
