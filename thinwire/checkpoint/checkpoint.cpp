#include "thinwire/checkpoint/checkpoint.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <functional>
#include <system_error>

#include "thinwire/base/atomic_file.h"
#include "thinwire/base/read_file.h"
#include "thinwire/checkpoint/safetensors.h"

namespace thinwire::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kFormat = "thinwire-checkpoint";
constexpr uint64_t kVersion = 1;
constexpr int kMaxDepth = 64;               // of the manifest's JSON
constexpr int64_t kMaxManifest = 64 << 20;  // bytes
constexpr uint64_t kMostRanks = 1 << 20;    // of a kind: more would not fit into a manifest

fs::path home_of(const fs::path& run) { return run / "checkpoints"; }
std::string step_name(int64_t step) { return fmt::format("step-{}", step); }
std::string draft_name(int64_t step) { return fmt::format(".step-{}.tmp", step); }

// Files carry their stage's number only where there are several.
std::string stage_name(int64_t stage, int64_t stages) { return stages == 1 ? "" : fmt::format("stage-{}.", stage); }
std::string all_name(int64_t stage, int64_t stages) { return stage_name(stage, stages) + "all.safetensors"; }
std::string replica_name(int64_t replica, int64_t stage, int64_t stages) {
  return fmt::format("{}replica-{}.safetensors", stage_name(stage, stages), replica);
}

std::vector<std::string> names_of(int64_t replicas, int64_t stages) {
  std::vector<std::string> names;
  for (int64_t stage = 0; stage < stages; ++stage) {
    names.push_back(all_name(stage, stages));
    for (int64_t replica = 0; replica < replicas; ++replica) names.push_back(replica_name(replica, stage, stages));
  }
  return names;
}

std::string hex(uint64_t hash) { return fmt::format("{:016x}", hash); }
std::string hash_of(std::string_view bytes) { return hex(XXH3_64bits(bytes.data(), bytes.size())); }

// --- folders

void check(const std::error_code& error, const fs::path& path) {
  if (error) throw std::system_error(error, path.string());
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  check(error, path);
}

void rename_tree(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  check(error, to);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error != std::errc::no_such_file_or_directory) check(error, folder);
  return names;
}

// The steps of all checkpoints by their names, ascending: one that cannot be read is one, too.
std::vector<int64_t> steps_in(const fs::path& home) {
  constexpr std::string_view kPrefix = "step-";
  std::vector<int64_t> steps;
  for (const std::string& name : names_in(home)) {
    int64_t step = -1;
    if (!name.starts_with(kPrefix)) continue;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (step >= 0 && name == step_name(step)) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

void prepare(const fs::path& home, const fs::path& draft) {
  create_folders(home);
  recover(home.parent_path());
  std::error_code error;
  fs::create_directory(draft, error);
  check(error, draft);
}

// Gives the draft its name. If the step was saved before, old and new change names in one move, so that neither a
// crash nor a failure leaves the run without it.
void publish(const fs::path& draft, const fs::path& place) {
  sync_folder(draft);
  if (!fs::exists(fs::symlink_status(place))) {
    rename_tree(draft, place);
  } else if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) != 0) {
    // This file system cannot exchange: two moves. A crash between them is mended by recover().
    const fs::path aside = place.parent_path() / ("." + place.filename().string() + ".old");
    rename_tree(place, aside);
    try {
      rename_tree(draft, place);
    } catch (...) {
      rename_tree(aside, place);
      throw;
    }
    rename_tree(aside, draft);
  }
  sync_folder(place.parent_path());
  remove_tree(draft);
}

// A checkpoint loses its name before its files, so that no reader takes the rest for a whole one. Those after the one
// just saved go, too: the run was taken up again before them.
void prune(const fs::path& home, int64_t saved, int64_t keep) {
  const auto remove = [&](int64_t step) {
    rename_tree(home / step_name(step), home / draft_name(step));
    remove_tree(home / draft_name(step));
  };
  std::vector<int64_t> steps = steps_in(home);
  for (; steps.back() > saved; steps.pop_back()) remove(steps.back());
  for (; std::ssize(steps) > keep; steps.erase(steps.begin())) remove(steps.front());
}

// --- ranks

// Does `work` on every rank and waits for all. If it throws on one, the draft is removed and then every rank throws.
void together(const comm::World& world, const fs::path& draft, const std::function<void()>& work) {
  try {
    world.together(work);
  } catch (...) {
    std::error_code ignored;  // what cannot be removed now is a leftover for the next save
    if (world.is_rank0() || !world.shares_disk) fs::remove_all(draft, ignored);
    try {
      world.group->barrier();
    } catch (const std::exception&) {  // what is on its way out says more
    }
    throw;
  }
}

std::vector<Written> gather(const Written& own, comm::Group& group) {
  const at::Tensor in = at::empty({2}, at::kLong), out = at::empty({group.size(), 2}, at::kLong);
  in.mutable_data_ptr<int64_t>()[0] = own.bytes;
  in.mutable_data_ptr<int64_t>()[1] = std::bit_cast<int64_t>(own.xxh3);
  group.all_gather(out, in, comm::TrafficKind::control)->wait();
  std::vector<Written> all;
  for (auto* row = out.const_data_ptr<int64_t>(); std::ssize(all) < group.size(); row += 2)
    all.push_back({row[0], std::bit_cast<uint64_t>(row[1])});
  return all;
}

// --- files

Written write_part(const fs::path& path, const State& state, bool all_equal) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, entry] : state)
    if ((entry.scope == Scope::all_equal) == all_equal) tensors[name] = entry.value;
  return write_safetensors(path, tensors);
}

// The XXH3 of the manifest without its own field of that name.
std::string manifest_hash(json manifest) {
  manifest.erase("xxh3");
  return hash_of(manifest.dump());
}

const json& field(const json& object, const std::string& key, json::value_t type, const fs::path& path) {
  const auto it = object.find(key);
  TORCH_CHECK(it != object.end(), path.string(), ": has no '", key, "'");
  TORCH_CHECK(it->type() == type, path.string(), ": '", key, "' should be ",
              type == json::value_t::number_unsigned ? "a whole number from 0 up" : json(type).type_name(), ", is ",
              it->is_number() ? it->dump() : it->type_name());
  return *it;
}

json parse_manifest(const std::string& text, const fs::path& path) {
  TORCH_CHECK(std::ssize(text) <= kMaxManifest, path.string(), ": ", text.size(), " bytes, the most allowed is ",
              kMaxManifest);
  const auto shallow = [&](int depth, json::parse_event_t, json&) {
    TORCH_CHECK(depth <= kMaxDepth, path.string(), ": nested too deep");
    return true;
  };
  json manifest;
  try {
    if (text.find('\0') == text.npos) manifest = json::parse(text, shallow);  // for the parser, zero is the end
  } catch (const json::exception&) {
  }
  TORCH_CHECK(manifest.is_object(), path.string(), ": not a JSON object");

  const std::string format = field(manifest, "format", json::value_t::string, path).get<std::string>();
  TORCH_CHECK(format == kFormat, path.string(), ": not a manifest of ", kFormat);
  const auto version = field(manifest, "version", json::value_t::number_unsigned, path).get<uint64_t>();
  TORCH_CHECK(version == kVersion, path.string(), ": wanted version ", kVersion, ", is ", version);
  const std::string hash = field(manifest, "xxh3", json::value_t::string, path).get<std::string>();
  TORCH_CHECK(hash == manifest_hash(manifest), path.string(), ": damaged, its XXH3 does not fit");
  field(manifest, "step", json::value_t::number_unsigned, path);
  const auto replicas = field(manifest, "replicas", json::value_t::number_unsigned, path).get<uint64_t>();
  uint64_t stages = 1;
  if (manifest.contains("stages")) stages = field(manifest, "stages", json::value_t::number_unsigned, path);
  // As many as there must be, each under its own name: no other name is ever looked for.
  const json& files = field(manifest, "files", json::value_t::object, path);
  TORCH_CHECK(0 < replicas && replicas <= kMostRanks && 0 < stages && stages <= kMostRanks &&
                  files.size() == stages * (replicas + 1),
              path.string(), ": ", replicas, " replicas of ", stages, " stages do not have ", files.size(), " files");
  for (const std::string& name : names_of(replicas, stages)) field(files, name, json::value_t::object, path);
  TORCH_CHECK(manifest.contains("facts"), path.string(), ": has no 'facts'");
  return manifest;
}

using Files = std::map<std::string, Written>;

// The manifest's text; `path` is for messages.
std::string manifest_text(const fs::path& path, int64_t step, const json& facts, const comm::MeshShape& shape,
                          const Files& written) {
  json files;
  for (const auto& [name, file] : written) files[name] = {{"bytes", file.bytes}, {"xxh3", hex(file.xxh3)}};
  json manifest{{"format", kFormat},          {"version", kVersion}, {"step", step},
                {"replicas", shape.replicas}, {"facts", facts},      {"files", files}};
  if (shape.stages > 1) manifest["stages"] = shape.stages;
  manifest["xxh3"] = manifest_hash(manifest);
  const std::string text = manifest.dump(2) + "\n";
  parse_manifest(text, path);  // facts that could not be read back must not get onto disk
  return text;
}

// The bytes of a file, if they are those that the manifest says.
std::string read_verified(const fs::path& folder, const std::string& name, const json& files) {
  const fs::path path = folder / name, manifest = folder / kManifest;
  const json& about = field(files, name, json::value_t::object, manifest);
  const auto bytes = field(about, "bytes", json::value_t::number_unsigned, manifest).get<uint64_t>();
  const std::string hash = field(about, "xxh3", json::value_t::string, manifest).get<std::string>();
  std::string text = read_file_in(folder, name);
  TORCH_CHECK(text.size() == bytes, path.string(), ": wanted ", bytes, " bytes, has ", text.size());
  TORCH_CHECK(hash_of(text) == hash, path.string(), ": damaged, wanted XXH3 ", hash, ", has ", hash_of(text));
  return text;
}

Safetensors read_part(const fs::path& folder, const std::string& name, const json& files) {
  return parse_safetensors(read_verified(folder, name, files), (folder / name).string());
}

json manifest_in(const fs::path& folder) {
  return parse_manifest(read_file_in(folder, kManifest, kMaxManifest), folder / kManifest);
}

}  // namespace

void save(const fs::path& run, int64_t step, const State& state, const json& facts, int64_t keep,
          const comm::World& world, const comm::MeshShape& shape) {
  TORCH_CHECK(step >= 0, "[checkpoint] step must be at least 0, got ", step);
  TORCH_CHECK(keep >= 1, "[checkpoint] keep must be at least 1, got ", keep);
  TORCH_CHECK(shape.ranks() == world.size(), "[checkpoint] ", world.size(), " ranks cannot be ", shape.replicas,
              " replicas of ", shape.stages, " stages");
  const fs::path home = home_of(run), draft = home / draft_name(step);
  const bool owns_folders = world.is_rank0() || !world.shares_disk;  // makes, names and removes folders
  const comm::Coordinates here = shape.of(world.rank());
  Written all, own;

  together(world, draft, [&] {
    if (owns_folders) prepare(home, draft);
  });
  together(world, draft, [&] {
    if (here.replica == 0 || !world.shares_disk)
      all = write_part(draft / all_name(here.stage, shape.stages), state, true);
    own = write_part(draft / replica_name(here.replica, here.stage, shape.stages), state, false);
  });
  const std::vector<Written> alls = gather(all, *world.group), owns = gather(own, *world.group);
  std::string manifest;
  together(world, draft, [&] {
    if (!world.is_rank0()) return;
    Files files;
    for (int rank = 0; rank < world.size(); ++rank) {
      const comm::Coordinates at = shape.of(rank);
      files[replica_name(at.replica, at.stage, shape.stages)] = owns[rank];
      if (at.replica == 0) files[all_name(at.stage, shape.stages)] = alls[rank];
    }
    manifest = manifest_text(draft / kManifest, step, facts, shape, files);
  });
  manifest = world.broadcast_bytes(std::move(manifest));
  together(world, draft, [&] {
    if (!owns_folders) return;
    write_file(draft / kManifest, {manifest});
    publish(draft, home / step_name(step));
  });
  together(world, draft, [&] {  // not before every rank has the new one
    if (owns_folders) prune(home, step, keep);
  });
}

void recover(const fs::path& run) {
  const fs::path home = home_of(run);
  for (const std::string& name : names_in(home)) {
    if (!name.starts_with(".step-")) continue;
    if (name.ends_with(".old")) {
      const fs::path place = home / name.substr(1, name.size() - 5);
      if (!fs::exists(fs::symlink_status(place))) rename_tree(home / name, place);
    }
    if (name.ends_with(".old") || name.ends_with(".tmp")) remove_tree(home / name);
  }
}

fs::path folder_of(const fs::path& run, int64_t step) { return home_of(run) / step_name(step); }

std::vector<int64_t> steps(const fs::path& run) { return steps_in(home_of(run)); }

int64_t newest(const fs::path& run) {
  const std::vector<int64_t> all = steps(run);
  return all.empty() ? -1 : all.back();
}

Manifest read_manifest(const fs::path& folder) {
  json manifest = manifest_in(folder);
  return {manifest["replicas"].get<int64_t>(), manifest.value("stages", int64_t{1}), std::move(manifest["facts"])};
}

Loaded load(const fs::path& folder, int replica, int stage) {
  const fs::path path = folder / kManifest;
  json manifest = manifest_in(folder);
  const auto replicas = manifest["replicas"].get<uint64_t>(), stages = manifest.value("stages", uint64_t{1});
  TORCH_CHECK(replica >= 0 && static_cast<uint64_t>(replica) < replicas, path.string(), ": wanted replica ", replica,
              ", the checkpoint has ", replicas, " (counted from 0)");
  TORCH_CHECK(stage >= 0 && static_cast<uint64_t>(stage) < stages, path.string(), ": wanted stage ", stage,
              ", the checkpoint has ", stages, " (counted from 0)");
  const auto count = static_cast<int64_t>(stages);
  const std::string all = all_name(stage, count), own = replica_name(replica, stage, count);
  Loaded loaded;
  for (auto& [name, value] : read_part(folder, all, manifest["files"]).tensors)
    loaded.state[name] = {std::move(value), Scope::all_equal};
  for (auto& [name, value] : read_part(folder, own, manifest["files"]).tensors) {
    const bool fresh = loaded.state.try_emplace(name, Entry{std::move(value), Scope::per_replica}).second;
    TORCH_CHECK(fresh, (folder / own).string(), ": ", json(name).dump(), " is in ", all, " too");
  }
  loaded.facts = std::move(manifest["facts"]);
  return loaded;
}

void verify(const fs::path& folder) {
  const json manifest = manifest_in(folder);
  for (const auto& file : manifest["files"].items()) read_verified(folder, file.key(), manifest["files"]);
}

}  // namespace thinwire::checkpoint
