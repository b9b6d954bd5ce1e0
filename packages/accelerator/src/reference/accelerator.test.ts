// The reference accelerator does what every accelerator must do.

import { describeAccelerator } from "../cases/accelerator.cases.ts";
import { createReferenceAccelerator } from "./accelerator.ts";

describeAccelerator("reference", createReferenceAccelerator);
