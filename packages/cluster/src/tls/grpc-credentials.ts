// TLS of gRPC ports, by certificates that may be replaced while connections are open, and who may connect:
//
//   a port      asks for a client's certificate where authorities are given, and demands it; where a name
//               is given too, the certificate must carry it
//   a client    believes a port by the authorities, for the host it connects to, or for that name

import { TLSSocket, checkServerIdentity, createSecureContext } from "node:tls";
import { ChannelCredentials, ServerCredentials } from "@grpc/grpc-js";
import type { TlsSource } from "./tls-files.ts";
import { secureOptions } from "./tls-material.ts";
import type { TlsMaterial } from "./tls-material.ts";

/** TLS between the members of a cluster. */
export interface ClusterTls {
  readonly source: TlsSource;
  /** The name that every member's certificate carries; none: a worker's is for the host it is reached at. */
  readonly memberName?: string | undefined;
}

/** Milliseconds for a handshake; then its connection is cut. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Credentials of a port; those without `tls` are none. */
export function portCredentials(
  tls: TlsSource | undefined,
  handshakeTimeoutMs: number = HANDSHAKE_TIMEOUT_MS,
): ServerCredentials {
  return tls === undefined
    ? ServerCredentials.createInsecure()
    : new ReplacedCredentials(tls, handshakeTimeoutMs);
}

/** grpc-js keeps what the first argument says, and takes the second again whenever it is updated. */
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

/** Credentials of clients, made anew when certificates have been replaced. */
export class ClientCredentials {
  readonly #tls: TlsSource | undefined;
  #material: TlsMaterial | undefined;
  #credentials = ChannelCredentials.createInsecure();

  constructor(tls: TlsSource | undefined) {
    this.#tls = tls;
  }

  /** Those of a connection that is opened now; the same object as long as they are the same. */
  get current(): ChannelCredentials {
    const material = this.#tls?.material;
    if (material === undefined || material === this.#material) return this.#credentials;
    this.#material = material;
    const context = createSecureContext(secureOptions(material));
    this.#credentials = ChannelCredentials.createFromSecureContext(context);
    return this.#credentials;
  }
}

/** Whether the peer may stay: where members have a name, only one whose certificate carries it may. */
export function isMember(socket: unknown, memberName: string | undefined): boolean {
  if (memberName === undefined) return true;
  if (!(socket instanceof TLSSocket)) return false;
  const certificate = socket.getPeerCertificate();
  const isShown = Object.keys(certificate).length > 0;
  return isShown && checkServerIdentity(memberName, certificate) === undefined;
}
