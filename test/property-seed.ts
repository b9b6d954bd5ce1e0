// Property tests draw their inputs from one seed, so that a commit passes or fails alike, whoever tests it. A
// property that fails prints the seed and the path to its smallest counterexample. CONTRIBUTING.md tells how
// other seeds are tried.

import fc from "fast-check";

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env["TEST_SEED"]) });
