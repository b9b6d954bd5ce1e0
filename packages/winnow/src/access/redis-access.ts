// How this process reaches Redis: URL, user, password and certificates. A password in a flag can be seen by
// every user of the machine, so it may be in a file or a variable instead. The file may be replaced while the
// process runs.

import type { RedisAccess } from "@winnow/cluster";
import { WinnowError } from "@winnow/core";
import { openConfigFile } from "../process/config-file.ts";
import { processVariables } from "../process/process-settings.ts";
import type { ProcessTls, RedisTlsFlags } from "../process/process-tls.ts";

/** Flags that say how Redis is reached. */
export interface RedisFlags extends RedisTlsFlags {
  readonly redis?: string | undefined;
  readonly redisUsername?: string | undefined;
  readonly redisPasswordFile?: string | undefined;
}

const PASSWORD_POLL_MS = 2000;
const PASSWORD_CHARACTERS_MAX = 1024;

/**
 * Opens the files that the flags name.
 * @throws WinnowError INVALID_ARGUMENT, NOT_FOUND; neither quotes a password
 */
export async function openRedisAccess(
  flags: RedisFlags,
  certificates: ProcessTls,
): Promise<{ readonly access: RedisAccess; readonly close: () => void }> {
  const { redisUsername: user, redisPasswordFile: file } = flags;
  const tls = await certificates.openRedis(flags);
  const isUserGiven = user !== undefined && user !== "";
  const access = { tls, ...(isUserGiven && { user }) };
  if (file === undefined) {
    const variable = processVariables["WINNOW_REDIS_PASSWORD"];
    if (variable === "") throw emptyPassword();
    const isGiven = variable !== undefined;
    return { access: { ...access, ...(isGiven && { password: () => variable }) }, close: () => {} };
  }
  const flag = "--redis-password-file";
  const settings = { file, flag, read: readPassword, pollMs: PASSWORD_POLL_MS };
  const opened = await openConfigFile(settings, certificates.environment);
  let password = opened.initial;
  opened.follow((changed) => (password = changed));
  return { access: { ...access, password: () => password }, close: () => opened.close() };
}

/** It is empty where a script's variable is not set; Redis would be asked without a password, or with the URL's. */
function emptyPassword(): WinnowError {
  const text = "WINNOW_REDIS_PASSWORD is empty; set it to the password of Redis, or unset it";
  return new WinnowError("INVALID_ARGUMENT", text);
}

/** The first line; a second one is an error. @throws WinnowError INVALID_ARGUMENT that quotes nothing */
function readPassword(text: string, source: string): string {
  const lines = text.split(/\r?\n/);
  const [first = "", ...rest] = lines;
  if (first !== "" && first.length <= PASSWORD_CHARACTERS_MAX && rest.every((line) => line === ""))
    return first;
  const message = `${source} must hold one line, a password of up to ${PASSWORD_CHARACTERS_MAX} characters`;
  throw new WinnowError("INVALID_ARGUMENT", message);
}
