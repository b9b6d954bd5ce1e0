// The definition of the gRPC service for grpc-js, from the embedded descriptor: no file is read at
// run time. On the Exchange stream grpc-js only carries bytes; `frame-codec.ts` encodes and decodes
// frames, so that a malformed one is refused with a message.

import { makeGenericClientConstructor } from "@grpc/grpc-js";
import type {
  ChannelOptions,
  ClientDuplexStream,
  MethodDefinition,
  ServiceDefinition,
  UntypedServiceImplementation,
  handleBidiStreamingCall,
} from "@grpc/grpc-js";
import { WinnowError, codeOfGrpcStatus } from "@winnow/core";
import { shardDescriptor } from "../generated/shard-descriptor.ts";
import type { ProtoGrpcType } from "../generated/shard.ts";
import type {
  ShardClient as GeneratedClient,
  ShardHandlers as GeneratedHandlers,
} from "../generated/winnow/shard/v1/Shard.ts";
import { cutDetails } from "./malformed-frame.ts";
import { MessageCodec } from "./message-codec.ts";
import type { PackageDescriptor } from "./message-codec.ts";
import type { ClientSecurity } from "../../tls/grpc-credentials.ts";

/** Largest message either side takes or sends; larger answers are refused before they are sent. */
export const MESSAGE_BYTES_MAX: number = 64 * 1024 * 1024;

/** Bytes of replies a router lets a worker send before it has read them. */
const FLOW_CONTROL_WINDOW_BYTES = 4 * 1024 * 1024;

/** The package of `shard.proto`. */
const PACKAGE = "winnow.shard.v1";
const codec = new MessageCodec(packageOf(shardDescriptor, PACKAGE));
type Definition = ProtoGrpcType["winnow"]["shard"]["v1"]["Shard"]["service"];
const service = codec.service(PACKAGE, "Shard") as unknown as Definition;

/** A router's call of Exchange. */
export type ExchangeCall = ClientDuplexStream<Buffer, Buffer>;

/** A client of one worker. */
export interface ShardClient extends Omit<GeneratedClient, "Exchange"> {
  Exchange(): ExchangeCall;
}

/** The handlers of a worker's server. */
export type ShardHandlers = UntypedServiceImplementation &
  Pick<
    GeneratedHandlers,
    "Describe" | "GetProgram" | "FollowOrder" | "GetOrder" | "DrainWorker"
  > & {
    readonly Exchange: handleBidiStreamingCall<Buffer, Buffer>;
  };

/** The Exchange method with frames as messages: their generic codec. */
export const frameMessages: Definition["Exchange"] = service.Exchange;

const sameBytes = (bytes: Buffer): Buffer => bytes;
const exchange: MethodDefinition<Buffer, Buffer> = {
  ...frameMessages,
  requestSerialize: sameBytes,
  requestDeserialize: sameBytes,
  responseSerialize: sameBytes,
  responseDeserialize: sameBytes,
};

/** The methods of the service. */
export const shardService: ServiceDefinition = { ...service, Exchange: exchange };

const Client = makeGenericClientConstructor(shardService, `${PACKAGE}.Shard`);

/**
 * Options of a router's connection. Neither side uses gRPC keepalive, because grpc-js mistakes an
 * answer that its own blocked event loop has not read yet for silence. Instead Winnow's pings,
 * which allow for this process's own lag, watch the streams (router: `worker-peer.ts`; worker:
 * `router-link.ts`), and a caller whose call timed out replaces the connection
 * (`WorkerConnector.forget`). Proxies that variables such as `http_proxy` name lead out of a network, not to its
 * members.
 */
const CLIENT_OPTIONS: ChannelOptions = {
  "grpc.enable_http_proxy": 0,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1000,
  "grpc.enable_retries": 0,
  "grpc.enable_channelz": 0,
  "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
  "grpc.max_send_message_length": MESSAGE_BYTES_MAX,
  "grpc-node.flow_control_window": FLOW_CONTROL_WINDOW_BYTES,
};

/**
 * Clients share no connection: a new client must reach the process that listens at the address. grpc-js shares
 * one between clients of the same options, so each has an option of its own. A pool of connections for each
 * client would do the same, but each pool wakes the process every 10 s.
 */
let clients = 0;

/** Ms without a stream after which a connection is closed. A router that needs one opens another. */
const IDLE_CONNECTION_MS = 60_000;

/**
 * Options of a worker's server. Channelz stays on: without it grpc-js 1.14.7 forgets its sessions,
 * and `forceShutdown` cuts none of them.
 */
export const SERVER_OPTIONS: ChannelOptions = {
  "grpc.max_connection_idle_ms": IDLE_CONNECTION_MS,
  "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
  "grpc.max_send_message_length": MESSAGE_BYTES_MAX,
};

/**
 * A client of one worker, at host:port. The target names its scheme, so that grpc-js does not take one from
 * the address: it would take `unix:7600` for a socket, not for a host of that name.
 */
export function createClient(
  address: string,
  { credentials, options }: ClientSecurity,
): ShardClient {
  const client = new Client(`dns:${address}`, credentials, {
    ...CLIENT_OPTIONS,
    ...options,
    "winnow.client": (clients += 1),
  });
  return client as unknown as ShardClient;
}

/** A gRPC failure as a `WinnowError`; the transport's error becomes its `cause`. */
export function fromServiceError(error: unknown, doing: string): WinnowError {
  if (error instanceof WinnowError) return error;
  const status = error as { readonly code?: unknown; readonly details?: unknown };
  const code = typeof status.code === "number" ? codeOfGrpcStatus(status.code) : "UNKNOWN";
  const isOwnText = code !== "UNAVAILABLE" && code !== "CANCELLED" && code !== "UNKNOWN";
  const details = isOwnText && typeof status.details === "string" ? `: ${status.details}` : "";
  return new WinnowError(code, cutDetails(`${doing}${details}`), { cause: error });
}

interface Namespace {
  readonly nested?: Readonly<Record<string, unknown>>;
}

/** The types of a package, nested in the descriptor below the parts of its name. */
function packageOf(descriptor: Namespace, name: string): PackageDescriptor {
  let space = descriptor;
  for (const part of name.split(".")) space = space.nested?.[part] as Namespace;
  return space.nested as PackageDescriptor;
}
