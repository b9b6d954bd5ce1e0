/** Membership, placement, the routing table and the wire contract. */
export {};
