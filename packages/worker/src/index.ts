/** Holds replicas of partitions, batches queries and answers them. */
export {};
