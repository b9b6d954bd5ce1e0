// Entrance of the package: membership, placement, the routing table and the wire contract.

export {};
