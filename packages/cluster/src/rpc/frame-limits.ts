// What one frame may hold, whoever wrote it. A frame is bounded in bytes by the transport; these bound
// what its bytes become: an empty message of two bytes is an object of hundreds, and ten bytes can claim
// room for four million candidates.

/** Candidates that the answers of one frame have room for: 32 MiB of scores and rows. */
export const POSITIONS_MAX: number = 4_194_304;

/** Nested messages of one frame: queries or replies, and what they consist of. */
export const NESTED_MESSAGES_MAX: number = 65_536;

/** Replies a worker puts into one frame; a router reads as many as `NESTED_MESSAGES_MAX` lets through. */
export const FRAME_REPLIES_MAX: number = 4096;

/** Workers in one pong. */
export const HEARD_PER_PONG: number = 256;

/** Members in one frame of news: 150 KB at most. */
export const MEMBERS_PER_FRAME: number = 256;
