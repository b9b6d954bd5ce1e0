// TLS of gRPC ports, with certificates that can be replaced while connections are open:
//
//   a port      demands a client's certificate if authorities are given; if a name
//               is given too, the certificate must be for that name
//   a client    verifies a port's certificate by the authorities, for the host or for that name

import { TLSSocket, checkServerIdentity, createSecureContext } from "node:tls";
import type { SecureContext } from "node:tls";
import { ChannelCredentials, ServerCredentials } from "@grpc/grpc-js";
import type { ChannelOptions } from "@grpc/grpc-js";
import { peerNamed } from "./peer-name.ts";
import type { TlsSource } from "./tls-files.ts";
import { secureOptions } from "./tls-material.ts";
import type { TlsMaterial } from "./tls-material.ts";

/** TLS between the members of a cluster. */
export interface ClusterTls {
  readonly source: TlsSource;
  /** The name in every member's certificate; `undefined`: a worker's certificate is for the host in its address. */
  readonly memberName?: string | undefined;
}

/** Milliseconds for a handshake; then its connection is cut. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Credentials of a port; insecure ones without `tls`. */
export function portCredentials(
  tls: TlsSource | undefined,
  handshakeTimeoutMs: number = HANDSHAKE_TIMEOUT_MS,
): ServerCredentials {
  return tls === undefined
    ? ServerCredentials.createInsecure()
    : new ReplacedCredentials(tls, handshakeTimeoutMs);
}

/** grpc-js keeps the first argument, and reads the second one again whenever it is updated. */
class ReplacedCredentials extends ServerCredentials {
  constructor(tls: TlsSource, handshakeTimeout: number) {
    const isAsking = tls.material.ca !== undefined;
    super(
      { requestCert: isAsking, rejectUnauthorized: isAsking, handshakeTimeout },
      secureOptions(tls.material),
    );
    tls.follow((material) => this.updateSecureContextOptions(secureOptions(material)));
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

/** How a client is opened. */
export interface ClientSecurity {
  readonly credentials: ChannelCredentials;
  readonly options: ChannelOptions;
}

/** Credentials of clients, made again when certificates were replaced. */
export class ClientCredentials {
  readonly #tls: ClusterTls | undefined;
  #material: TlsMaterial | undefined;
  #context: SecureContext | undefined;

  constructor(tls: ClusterTls | undefined) {
    this.#tls = tls;
  }

  /** What a connection to a port of this host that is opened now is opened with. */
  of(host: string): ClientSecurity {
    if (this.#tls === undefined) {
      return { credentials: ChannelCredentials.createInsecure(), options: {} };
    }
    const { source, memberName = host } = this.#tls;
    const { material } = source;
    if (material !== this.#material) this.#context = createSecureContext(secureOptions(material));
    this.#material = material;
    const { verify, options } = peerNamed(memberName);
    const credentials = ChannelCredentials.createFromSecureContext(this.#context!, verify);
    return { credentials, options };
  }
}

/** Whether a peer may stay: if members have a name, its certificate must be for that name. */
export function isMember(socket: unknown, memberName: string | undefined): boolean {
  if (memberName === undefined) return true;
  if (!(socket instanceof TLSSocket)) return false;
  const certificate = socket.getPeerCertificate();
  const isShown = Object.keys(certificate).length > 0;
  return isShown && checkServerIdentity(memberName, certificate) === undefined;
}
