// The API keys of clients, in a file that is read again when it changes.

import { type ApiKeys, KeyGuard, type KeyObserver, readKeys } from "@winnow/cluster";
import type { Environment } from "@winnow/core";
import { openConfigFile } from "./config-file.ts";

const KEYS_POLL_MS = 2000;

/** The guard of requests; `undefined` without a file. */
interface OpenedKeys {
  readonly guard: KeyGuard;
  readonly close: () => void;
}

/**
 * Opens the file of keys, if one is named.
 * @throws WinnowError NOT_FOUND, INVALID_ARGUMENT; neither quotes a key
 */
export async function openApiKeys(
  file: string | undefined,
  environment: Environment,
  observe?: KeyObserver,
): Promise<OpenedKeys | undefined> {
  if (file === undefined) return undefined;
  const settings = { file, flag: "--api-keys", read: readKeys, pollMs: KEYS_POLL_MS };
  const opened = await openConfigFile<ApiKeys>(settings, environment);
  const guard = new KeyGuard(opened.initial, environment.clock, observe);
  opened.follow((keys) => guard.replaceKeys(keys));
  return { guard, close: () => opened.close() };
}
