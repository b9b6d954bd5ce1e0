// The balancer's decision: which router takes a request. It knows of each router only what probes of `/readyz`
// showed, and a probe may be late on a busy machine.

/**
 * What a router is known to be: its last word on `/readyz` was 200; so it was, but a later probe has had no answer
 * for long; its last word was another, or it took no connection.
 */
export type RouterReadiness = "ready" | "silent" | "unready";

const BEST_FIRST: readonly RouterReadiness[] = ["ready", "silent", "unready"];

/**
 * The place of the router that takes a request: of the best ones, the first from place `wanted` on, cyclically. A
 * silent router is most likely slow, and one that has said it is not ready refuses for certain: while one router
 * starts, the other one is asked, however slow it is. `readiness` has an entry for each router, at least one.
 */
export function chosenRouter(readiness: readonly RouterReadiness[], wanted: number): number {
  const count = readiness.length;
  const places = Array.from({ length: count }, (_, step) => (wanted + step) % count);
  const best = BEST_FIRST.find((each) => readiness.includes(each));
  return places.find((place) => readiness[place] === best) ?? wanted;
}
