// Where a rank is among replicas, stages and shards. All rank arithmetic is here: no other file computes a rank.
//
// Ranks of one replica are consecutive, and of one stage within it, so that a launcher that fills machine after machine
// keeps the links inside a replica short.
#pragma once

namespace thinwire::comm {

// One rank's place; each counts from 0.
struct Coordinates {
  int replica = 0, stage = 0, shard = 0;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

// How many there are of each. rank = (replica * stages + stage) * shards + shard.
struct MeshShape {
  int replicas = 1, stages = 1, shards = 1;

  // All ranks; and the bijection between ranks 0..ranks()-1 and coordinates. Arguments in range are the caller's duty.
  int ranks() const { return replicas * stages * shards; }
  Coordinates of(int rank) const { return {rank / (stages * shards), rank / shards % stages, rank % shards}; }
  int rank(const Coordinates& c) const { return (c.replica * stages + c.stage) * shards + c.shard; }
};

}  // namespace thinwire::comm
