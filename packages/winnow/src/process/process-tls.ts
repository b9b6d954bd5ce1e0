// The certificate files that the TLS flags name. There are four sets, each with its own use:
//
//   public    certificates for clients of a router, and for monitoring of a worker
//   grpc      certificates for a router's gRPC port, from TensorFlow Serving's `--ssl_config_file`
//   cluster   certificates between members of a cluster
//   redis     authorities that verify Redis, and the client certificate for it

import { X509Certificate } from "node:crypto";
import { openTlsFiles } from "@winnow/cluster";
import type { ClusterTls, TlsFileNames, TlsFiles, TlsFilesParts, TlsStatus } from "@winnow/cluster";
import { type Environment, WinnowError } from "@winnow/core";
import { wallMs } from "./process-settings.ts";
import { openSslConfig } from "./ssl-config.ts";

/** Flags of TLS for clients. */
export interface TlsFlags {
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly tlsClientCa?: string;
}

/** Flags of TLS between members. */
export interface ClusterTlsFlags {
  readonly clusterTlsCert?: string;
  readonly clusterTlsKey?: string;
  readonly clusterTlsCa?: string;
  readonly clusterTlsName?: string;
}

/** Flags of TLS with Redis. */
export interface RedisTlsFlags {
  readonly redisCa?: string | undefined;
  readonly redisCert?: string | undefined;
  readonly redisKey?: string | undefined;
}

/** The flag of each file, for errors. */
const FLAGS = {
  public: { certFile: "--tls-cert", keyFile: "--tls-key", caFile: "--tls-client-ca" },
  cluster: {
    certFile: "--cluster-tls-cert",
    keyFile: "--cluster-tls-key",
    caFile: "--cluster-tls-ca",
  },
  redis: { certFile: "--redis-cert", keyFile: "--redis-key", caFile: "--redis-ca" },
} as const;

/** The certificate files of one process. */
export class ProcessTls {
  /** Clock and log of the process. */
  readonly environment: Environment;
  readonly #opened: TlsFiles[] = [];

  constructor(environment: Environment) {
    this.environment = environment;
  }

  /** The states of all files, for monitoring. */
  readonly statuses = (): readonly TlsStatus[] => this.#opened.map(({ status }) => status);

  /**
   * Certificates for clients; `undefined`: no TLS.
   * @throws WinnowError INVALID_ARGUMENT for flags or files that do not fit together, NOT_FOUND for a missing
   * file
   */
  async openPublic(flags: TlsFlags): Promise<TlsFiles | undefined> {
    const { tlsCert: certFile, tlsKey: keyFile, tlsClientCa: caFile } = flags;
    if (certFile === undefined && keyFile === undefined && caFile === undefined) return undefined;
    assertBoth(certFile, keyFile, ["--tls-cert", "--tls-key"]);
    return this.open("public", { certFile, keyFile, caFile }, { flags: FLAGS.public });
  }

  /** Certificates between members; `undefined`: no TLS. @throws as `openPublic` */
  async openCluster(flags: ClusterTlsFlags): Promise<ClusterTls | undefined> {
    const { clusterTlsCert: certFile, clusterTlsKey: keyFile, ...more } = flags;
    const { clusterTlsCa: caFile, clusterTlsName: memberName } = more;
    const files = [certFile, keyFile, caFile].filter((file) => file !== undefined);
    if (files.length === 0 && memberName === undefined) return undefined;
    if (files.length < 3) {
      throw new WinnowError(
        "INVALID_ARGUMENT",
        "TLS between members takes --cluster-tls-cert, --cluster-tls-key and --cluster-tls-ca together",
      );
    }
    const opened = { certFile, keyFile, caFile };
    const source = await this.open("cluster", opened, { flags: FLAGS.cluster });
    this.#warnOfName(source.material.cert!, memberName);
    return { source, memberName };
  }

  /** Members that are given the name refuse this one, of which they tell, but nobody looks for it there. */
  #warnOfName(certificate: string, memberName: string | undefined): void {
    if (memberName === undefined) return;
    const own = new X509Certificate(certificate);
    if (own.checkHost(memberName, { subject: "never" }) !== undefined) return;
    const message = `The certificate of --cluster-tls-cert lacks the DNS name ${memberName} (--cluster-tls-name): members that are given this name will refuse it`;
    this.environment.log.warn("certificate of no member", { message, names: own.subjectAltName });
  }

  /** Certificates for Redis; `undefined`: the authorities that Node trusts. @throws as `openPublic` */
  async openRedis(flags: RedisTlsFlags): Promise<TlsFiles | undefined> {
    const { redisCert: certFile, redisKey: keyFile, redisCa: caFile } = flags;
    if (certFile !== undefined || keyFile !== undefined) {
      assertBoth(certFile, keyFile, ["--redis-cert", "--redis-key"]);
    }
    if (certFile === undefined && caFile === undefined) return undefined;
    return this.open("redis", { certFile, keyFile, caFile }, { flags: FLAGS.redis });
  }

  /** Certificates for gRPC: those of TensorFlow Serving's file, otherwise the public ones. @throws as `openPublic` */
  async openGrpc(
    file: string | undefined,
    otherwise: TlsFiles | undefined,
  ): Promise<TlsFiles | undefined> {
    if (file === undefined || file === "") return otherwise;
    const { names, readText } = await openSslConfig(file);
    return this.open("grpc", names, { readText });
  }

  /** Opens the files of one use. @throws as `openPublic` */
  async open(
    use: string,
    files: TlsFileNames,
    how: Partial<Pick<TlsFilesParts, "flags" | "readText">>,
  ): Promise<TlsFiles> {
    const opened = await openTlsFiles(use, files, { ...this.environment, ...how, wallMs });
    this.#opened.push(opened);
    return opened;
  }

  close(): void {
    for (const files of this.#opened.splice(0)) files.close();
  }
}

/** Refuses a certificate without its key, or a key without its certificate. @throws WinnowError INVALID_ARGUMENT */
function assertBoth(
  certFile: string | undefined,
  keyFile: string | undefined,
  [cert, key]: readonly [string, string],
): void {
  if (certFile !== undefined && keyFile !== undefined) return;
  if (certFile === undefined && keyFile === undefined) {
    throw new WinnowError("INVALID_ARGUMENT", `TLS takes ${cert} and ${key}`);
  }
  const [there, missing] = certFile === undefined ? [key, cert] : [cert, key];
  throw new WinnowError("INVALID_ARGUMENT", `${there} needs ${missing} beside it`);
}
