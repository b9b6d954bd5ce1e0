// A gRPC client that does what no stub does: unfinished messages, packed ones, answers left unread.

import http2 from "node:http2";
import type {
  ClientHttp2Session,
  ClientHttp2Stream,
  IncomingHttpHeaders,
  OutgoingHttpHeaders,
} from "node:http2";

/** A message as gRPC frames it; `announced` may claim another length. */
export function framed(
  content: Uint8Array,
  { isPacked = false, announced = content.length } = {},
): Buffer {
  const bytes = Buffer.alloc(5 + content.length);
  bytes[0] = isPacked ? 1 : 0;
  bytes.writeUInt32BE(announced, 1);
  bytes.set(content, 5);
  return bytes;
}

/** What a client says first. */
export const HTTP2_PREFACE: Buffer = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** Types of frames (RFC 9113). */
export const DATA = 0;
/** @see DATA */
export const HEADERS = 1;
/** @see DATA */
export const RST_STREAM = 3;
/** @see DATA */
export const SETTINGS_FRAME = 4;
/** @see DATA */
export const WINDOW_UPDATE = 8;
/** Flag of DATA and HEADERS. */
export const END_STREAM = 1;
/** Flag of HEADERS. */
export const END_HEADERS = 4;

/** A frame of HTTP/2. */
export function http2Frame(
  type: number,
  payload: Uint8Array = Buffer.alloc(0),
  { streamId = 0, flags = 0 } = {},
): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

/** The frames that have come whole. */
export function framesOf(bytes: Buffer): { readonly type: number; readonly payload: Buffer }[] {
  const frames = [];
  for (let at = 0; at + 9 <= bytes.length;) {
    const end = at + 9 + bytes.readUIntBE(at, 3);
    if (end > bytes.length) break;
    frames.push({ type: bytes[at + 3]!, payload: bytes.subarray(at + 9, end) });
    at = end;
  }
  return frames;
}

/** Headers of a call, each as it is: HPACK without its tables. */
export function callHeaders(path: string, further: Readonly<Record<string, string>> = {}): Buffer {
  const headers = {
    ":method": "POST",
    ":scheme": "http",
    ":path": path,
    ":authority": "a",
    "content-type": "application/grpc",
    te: "trailers",
    ...further,
  };
  const literal = (text: string): Buffer =>
    Buffer.concat([Buffer.of(text.length), Buffer.from(text)]);
  return Buffer.concat(
    Object.entries(headers).flatMap(([name, value]) => [
      Buffer.of(0),
      literal(name),
      literal(value),
    ]),
  );
}

/** One call. */
export class RawCall {
  readonly stream: ClientHttp2Stream;
  /** gRPC's status, once there is one. */
  status: number | undefined;
  message: string | undefined;
  receivedBytes = 0;
  /** Resolves when the stream has closed, whoever closed it. */
  readonly closed: Promise<void>;

  constructor(stream: ClientHttp2Stream) {
    this.stream = stream;
    const note = (headers: IncomingHttpHeaders): void => {
      if (headers["grpc-status"] === undefined) return;
      this.status = Number(headers["grpc-status"]);
      this.message = decodeURI([headers["grpc-message"] ?? ""].flat().join(""));
    };
    stream.on("response", note).on("trailers", note);
    stream.on("data", (chunk: Buffer) => void (this.receivedBytes += chunk.length));
    stream.on("error", () => undefined);
    this.closed = new Promise((resolve) => {
      stream.once("close", () => resolve());
    });
  }

  get isClosed(): boolean {
    return this.stream.closed || this.stream.destroyed;
  }
}

/** One connection. */
export class RawGrpcClient {
  readonly session: ClientHttp2Session;

  constructor(port: number, options: http2.ClientSessionOptions = {}) {
    this.session = http2.connect(`http://127.0.0.1:${port}`, options);
    this.session.on("error", () => undefined);
  }

  /** Begins a call and leaves it open. */
  begin(path: string, headers: OutgoingHttpHeaders = {}): RawCall {
    const stream = this.session.request(
      {
        ":method": "POST",
        ":path": path,
        "content-type": "application/grpc",
        te: "trailers",
        ...headers,
      },
      { endStream: false },
    );
    return new RawCall(stream);
  }

  close(): void {
    this.session.destroy();
  }
}
