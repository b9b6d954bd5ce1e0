// Metrics that routers and workers share: their version, the records that they refused, and the validity of
// their certificates.

import { addReadMetrics } from "@winnow/core";
import type { MetricRegister, MetricSeries, ReadMetric } from "@winnow/core";
import type { TlsStatus } from "../tls/tls-files.ts";
import type { RefusalCounts } from "../trust/refused-records.ts";

/** Sources of these metrics. */
export interface MemberMetricsOptions {
  /** Winnow's version, for `winnow_build_info`. */
  readonly version: string;
  /** Records of the store and answers of peers that were refused, by reason. */
  readonly refusals?: () => RefusalCounts;
  /** The certificates of this process and their validity. */
  readonly tls?: () => readonly TlsStatus[];
}

const METRICS: readonly ReadMetric<MemberMetricsOptions>[] = [
  {
    name: "winnow_build_info",
    help: "1, with the version of Winnow",
    labelNames: ["version"],
    read: ({ version }) => [{ labels: { version }, value: 1 }],
  },
  {
    name: "winnow_refused_records_total",
    help: "Records of the store and answers of peers that were not believed",
    type: "counter",
    labelNames: ["reason"],
    read: ({ refusals }) =>
      Object.entries(refusals?.() ?? {}).map(([reason, value]) => ({ labels: { reason }, value })),
  },
  {
    name: "winnow_tls_certificate_expiry_timestamp_seconds",
    help: "When the certificate ends",
    labelNames: ["use"],
    read: ({ tls }) => (tls?.() ?? []).flatMap(expiry),
  },
  {
    name: "winnow_tls_files_refused",
    help: "1 while files hold other certificates, refused",
    labelNames: ["use"],
    read: ({ tls }) =>
      (tls?.() ?? []).map(({ use, isRefused }) => ({ labels: { use }, value: Number(isRefused) })),
  },
];

function expiry({ use, expiresMs }: TlsStatus): MetricSeries[] {
  return expiresMs === undefined ? [] : [{ labels: { use }, value: expiresMs / 1000 }];
}

/** Registers these metrics. */
export function addMemberMetrics(register: MetricRegister, options: MemberMetricsOptions): void {
  addReadMetrics(register, METRICS, () => options);
}
