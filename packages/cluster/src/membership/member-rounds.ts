// Which member a worker asks next, so that all hear of all while each asks few. In a round a worker
// asks the members at distances 1, 2, 4, 8, … after it in the list, one after the other, which
// workers they hear. What a member knew one round ago has then reached every member, however many
// they are (the dissemination barrier of Hensgen, Finkel and Manber 1988, with answers instead of
// messages). A round takes about the same time for any number of members: its questions grow with
// the logarithm. At rest (`static-membership.ts`) a round is a single question, to the member at
// distance 1.

/** Duration of a round in ms; evidence that has reached every member is at most two rounds old. */
const ROUND_MS = 1100;
const INTERVAL_MS_MAX = 600;
/** Ms between two questions at rest, before jitter. */
export const REST_INTERVAL_MS: number = ROUND_MS;

/** Questions of a round in a list of `members` members. */
function questionsOf(members: number): number {
  return Math.max(1, Math.ceil(Math.log2(members)));
}

/** Ms between two questions, before jitter. */
export function roundIntervalMs(members: number): number {
  return Math.min(INTERVAL_MS_MAX, ROUND_MS / questionsOf(members));
}

/** List position of the member to ask at a step; a later one stands in if it cannot be asked. */
export function partnerAt(own: number, step: number, members: number): number {
  return (own + 2 ** (step % questionsOf(members))) % members;
}
