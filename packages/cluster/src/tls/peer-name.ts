// The name that a gRPC port's certificate must be for. grpc-js 1.14 asks a port for that name in the handshake, also
// where it is an IP address, of which RFC 6066 has none there: Node 20 to 24 warned of it, Node 26 throws. So
// a port at an address is asked for a name that nobody has, and its certificate is compared with the address here.

import { isIP } from "node:net";
import { checkServerIdentity } from "node:tls";
import type { ChannelOptions, VerifyOptions } from "@grpc/grpc-js";

/** What a channel needs, so that its port is verified for a name. */
export interface PeerName {
  readonly verify: VerifyOptions;
  readonly options: ChannelOptions;
}

/** Never a name of a host (RFC 6761). Ports that have one certificate show it whatever they are asked for. */
const NO_NAME = "address.invalid";

/** How a port is verified for `name`, a host's name or its IPv4 or IPv6 address without brackets. */
export function peerNamed(name: string): PeerName {
  if (isIP(name) === 0) return { verify: {}, options: { "grpc.ssl_target_name_override": name } };
  return {
    verify: { checkServerIdentity: (_, certificate) => checkServerIdentity(name, certificate) },
    options: { "grpc.ssl_target_name_override": NO_NAME },
  };
}
