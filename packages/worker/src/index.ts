// Entrance of the package: a process that holds replicas, batches queries and answers them.

export {};
