// A file that cannot be read is told by its name and by the flag that names it: with certificates of three kinds, a password
// and secrets on one command line, the name alone does not say which setting to mend.

import { silentLogger, systemClock } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { openCluster } from "../access/cluster-access.ts";
import { readTrust } from "../access/rest-client.ts";
import { monitoringOf, openModelConfig } from "../model-config/config-flags.ts";
import { openApiKeys } from "./api-keys.ts";
import { ProcessTls } from "./process-tls.ts";

const environment = { clock: systemClock, log: silentLogger, random: Math.random };
const tls = new ProcessTls(environment);
const FILE = "/nowhere/file";
/** A file that can be read, but holds nothing of use. */
const OTHER = import.meta.filename;
const cluster = { redis: "redis://127.0.0.1:1", cluster: "c", acceptUnsigned: false };

const READERS: Readonly<Record<string, () => unknown>> = {
  "--tls-cert": () => tls.openPublic({ tlsCert: FILE, tlsKey: OTHER }),
  "--tls-key": () => tls.openPublic({ tlsCert: OTHER, tlsKey: FILE }),
  "--tls-client-ca": () => tls.openPublic({ tlsCert: OTHER, tlsKey: OTHER, tlsClientCa: FILE }),
  "--cluster-tls-cert": () =>
    tls.openCluster({ clusterTlsCert: FILE, clusterTlsKey: OTHER, clusterTlsCa: OTHER }),
  "--cluster-tls-key": () =>
    tls.openCluster({ clusterTlsCert: OTHER, clusterTlsKey: FILE, clusterTlsCa: OTHER }),
  "--cluster-tls-ca": () =>
    tls.openCluster({ clusterTlsCert: OTHER, clusterTlsKey: OTHER, clusterTlsCa: FILE }),
  "--redis-ca": () => tls.openRedis({ redisCa: FILE }),
  "--redis-cert": () => tls.openRedis({ redisCert: FILE, redisKey: OTHER }),
  "--redis-key": () => tls.openRedis({ redisCert: OTHER, redisKey: FILE }),
  "--ssl_config_file": () => tls.openGrpc(FILE, undefined),
  "--api-keys": () => openApiKeys(FILE, environment),
  "--redis-password-file": () => openCluster({ ...cluster, redisPasswordFile: FILE }, environment),
  "--cluster-secret-file": () => openCluster({ ...cluster, clusterSecretFile: FILE }, environment),
  "--model_config_file": () =>
    openModelConfig(
      {
        model_config_file: FILE,
        model_config_file_poll_wait_seconds: 0,
        enable_model_warmup: true,
      },
      environment,
    ),
  "--monitoring_config_file": () =>
    monitoringOf(
      { monitoring_config_file: FILE, allow_version_labels_for_unavailable_models: false },
      environment,
    ),
  "--key-file": () => readTrust({ keyFile: FILE }),
  "--ca": () => readTrust({ ca: FILE }),
};

describe("a file that cannot be read", () => {
  test.each(Object.entries(READERS))("is told with its flag, %s", async (flag, read) => {
    const reading = Promise.resolve().then(read);

    await expect(reading).rejects.toThrow(`Cannot read ${FILE} (${flag})`);
    await expect(reading).rejects.toThrow("ENOENT");
  });

  test.each([
    ["--tls-cert", () => tls.openPublic({ tlsCert: OTHER, tlsKey: OTHER })],
    ["--redis-ca", () => tls.openRedis({ redisCa: OTHER })],
  ])("or holds nothing of use is told with its flag, %s", async (flag, read) => {
    await expect(read()).rejects.toThrow(`${OTHER} (${flag}) holds no certificate in PEM`);
  });
});
