// A host with its port, as URLs and logs write it.

/** host:port; an address of IPv6 gets brackets. */
export function hostPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
