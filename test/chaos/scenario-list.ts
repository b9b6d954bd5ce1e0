// All scenarios, in the order of the table.

import type { Scenario } from "./scenario.ts";
import { HOSTILE_CLIENTS } from "./scenarios/hostile-attacks.ts";
import { MACHINE_FAULTS } from "./scenarios/machine-faults.ts";
import { NETWORK_FAULTS } from "./scenarios/network-faults.ts";
import { PROCESS_FAULTS } from "./scenarios/process-faults.ts";
import { SCALING } from "./scenarios/scaling.ts";
import { STORE_FAULTS } from "./scenarios/store-faults.ts";
import { VERSION_CHANGES } from "./scenarios/version-changes.ts";

/** Every scenario there is. */
export const SCENARIOS: readonly Scenario[] = [
  ...PROCESS_FAULTS,
  ...NETWORK_FAULTS,
  ...VERSION_CHANGES,
  ...SCALING,
  ...STORE_FAULTS,
  ...MACHINE_FAULTS,
  ...HOSTILE_CLIENTS,
];
