// What one frame may hold, whoever wrote it. The transport bounds a frame's bytes; these limits
// bound the memory that decoding it takes: an empty message of two bytes becomes an object of
// hundreds of bytes, and ten bytes can claim room for four million candidates.

/** Candidates for which the answers of one frame have room: 32 MiB of scores and rows. */
export const POSITIONS_MAX: number = 4_194_304;

/** Nested messages of one frame: queries or replies, and the messages in them. */
export const NESTED_MESSAGES_MAX: number = 65_536;

/** Replies a worker puts into one frame; a router reads as many as `NESTED_MESSAGES_MAX` allows. */
export const FRAME_REPLIES_MAX: number = 4096;

/** Workers in one pong. */
export const HEARD_PER_PONG: number = 256;

/** Members in one frame of news: 150 KB at most. */
export const MEMBERS_PER_FRAME: number = 256;
