// Whom a worker asks next, so that all hear of all while each asks few. In a round a worker asks the
// members at distances 1, 2, 4, 8, … behind it in the list, one after the other, whom they hear; what one
// of them knew a round ago has then reached everybody, however many they are (the dissemination barrier
// of Hensgen, Finkel and Manber 1988, with answers instead of messages). A round takes about as long
// whatever the number of members: only its questions grow, with the logarithm.

/** Time of a round; evidence is at most twice as old when it has come all the way. */
const ROUND_MS = 1100;
const INTERVAL_MS_MAX = 600;

/** Questions of a round among so many members. */
function questionsOf(members: number): number {
  return Math.max(1, Math.ceil(Math.log2(members)));
}

/** Between two questions, before jitter. */
export function roundIntervalMs(members: number): number {
  return Math.min(INTERVAL_MS_MAX, ROUND_MS / questionsOf(members));
}

/** Where in the list the member is that is asked at a step; the next ones stand in for one that cannot be. */
export function partnerAt(own: number, step: number, members: number): number {
  return (own + 2 ** (step % questionsOf(members))) % members;
}
