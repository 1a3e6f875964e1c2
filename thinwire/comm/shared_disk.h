// Whether all ranks see one disk.
#pragma once

#include <filesystem>

#include "thinwire/comm/world.h"

namespace thinwire::comm {

// Collective. Whether what rank 0 writes beside `path` (which need not exist) is found there by all ranks: rank 0 puts
// a small file into the nearest folder above it that exists, and removes it. Rank 0's path is used. False where
// rank 0 cannot write there. Not to be called while another run makes or removes those folders.
bool see_one_disk(const World& world, const std::filesystem::path& path);

}  // namespace thinwire::comm
