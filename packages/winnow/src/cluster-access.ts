// How a role reaches the cluster, from its flags: a connector for streams to workers, and membership
// through Redis or a fixed list.

import {
  GrpcConnector,
  type MembershipStore,
  RedisMembership,
  StaticMembership,
  type WorkerConnector,
  parseMembers,
} from "@winnow/cluster";
import { type Environment, WinnowError } from "@winnow/core";

/** Flags that say how members find each other. */
export interface ClusterOptions {
  readonly redis?: string | undefined;
  readonly members?: string | undefined;
  /** Keeps clusters that share one Redis apart. */
  readonly cluster: string;
}

/** The cluster as one process reaches it. */
export interface ClusterAccess {
  readonly connector: WorkerConnector;
  readonly membership: MembershipStore;
  close(): Promise<void>;
}

/** Opens it. @throws WinnowError INVALID_ARGUMENT when neither or both ways are given */
export function openCluster(options: ClusterOptions, environment: Environment): ClusterAccess {
  const connector = new GrpcConnector(environment.clock);
  const membership = membershipOf(options, { connector, environment });
  return {
    connector,
    membership,
    close: async () => {
      await membership.close();
      connector.close();
    },
  };
}

interface MembershipParts {
  readonly connector: WorkerConnector;
  readonly environment: Environment;
}

function membershipOf(options: ClusterOptions, parts: MembershipParts): MembershipStore {
  const { redis, members, cluster } = options;
  const { connector, environment } = parts;
  if (redis !== undefined && redis !== "" && members === undefined) {
    return new RedisMembership(environment, { url: redis, cluster });
  }
  if (members !== undefined && (redis === undefined || redis === "")) {
    const describe = connector.describe.bind(connector);
    return new StaticMembership({ environment, describe }, { members: parseMembers(members) });
  }
  throw new WinnowError(
    "INVALID_ARGUMENT",
    "Members find each other through --redis URL (WINNOW_REDIS) or --members id@host:port,… (WINNOW_MEMBERS): give one of them",
  );
}
