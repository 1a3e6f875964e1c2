// Where a rank is among replicas, stages and shards. All rank arithmetic is here: no other file computes a rank.
//
// Ranks of one replica are consecutive, and of one stage within it, so that a launcher that fills machine after machine
// keeps the links inside a replica short.
#pragma once

namespace thinwire::comm {

// One rank's place; each counts from 0, and shard is 0 where replicas are not sharded.
// Comparable, so that tests and maps can use it.
struct Coordinates {
  int replica = 0, stage = 0, shard = 0;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

// How many there are of each, >= 1. rank = (replica * stages + stage) * shards + shard.
struct MeshShape {
  int replicas = 1, stages = 1, shards = 1;

  // All ranks; and the bijection between ranks 0..ranks()-1 and coordinates. Arguments in range are the caller's duty.
  int ranks() const { return replicas * stages * shards; }
  // The place of a rank, and the rank of a place.
  Coordinates of(int rank) const { return {rank / (stages * shards), rank / shards % stages, rank % shards}; }
  int rank(const Coordinates& c) const { return (c.replica * stages + c.stage) * shards + c.shard; }
};

}  // namespace thinwire::comm
