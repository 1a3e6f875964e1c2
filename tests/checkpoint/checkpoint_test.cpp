#include "thinwire/checkpoint/checkpoint.h"

#include <ATen/ops/full.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <set>

#include "thinwire/base/errors.h"
#include "thinwire/base/read_file.h"
#include "thinwire/checkpoint/safetensors.h"
#include "thinwire/comm/world.h"

namespace thinwire::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const json kFacts{{"recipe", "[model]\nname = \"gpt\"\n"}, {"tokens", 123456789}, {"rate", 0.1}, {"list", {1, -2}}};

State state_of(int rank, int64_t step, int64_t own_elements = 5) {
  State state;
  put(state, "step", step, Scope::all_equal);
  state["weights"] = {at::full({3, 4}, 0.5 + static_cast<double>(step), at::kFloat), Scope::all_equal};
  state["momentum"] = {at::full({own_elements}, rank + 10.0, at::kFloat), Scope::per_replica};
  state["slice"] = {at::full({2}, rank + 20.0, at::kDouble), Scope::per_shard};
  return state;
}

// A folder of a run, gone at the end.
class Checkpoint : public testing::Test {
 protected:
  Checkpoint()
      : run_(fs::temp_directory_path() / ("thinwire_" + std::to_string(::getpid()) +
                                          testing::UnitTest::GetInstance()->current_test_info()->name())),
        home_(run_ / "checkpoints") {
    fs::remove_all(run_);
  }
  ~Checkpoint() override { fs::remove_all(run_); }

  void save(int64_t step, int64_t keep = 3, int replicas = 2) {
    comm::run_threads(replicas, [&](comm::World& world) {
      checkpoint::save(run_, step, state_of(world.rank(), step), kFacts, keep, world, {.replicas = world.size()});
    });
  }

  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(home_)) names.insert(entry.path().filename().string());
    return names;
  }

  fs::path place(int64_t step) const { return home_ / ("step-" + std::to_string(step)); }

  const fs::path run_, home_;
};

std::string load_error(const fs::path& folder, int replica) {
  try {
    load(folder, replica);
  } catch (const std::exception& error) {
    const auto* torch = dynamic_cast<const c10::Error*>(&error);
    return torch ? torch->what_without_backtrace() : error.what();
  }
  return "no error";
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// What every rank of a save throws, when no file may grow beyond a megabyte; empty where it threw nothing.
std::vector<std::string> save_errors_on_a_small_disk(const fs::path& run, int replicas, int big_rank,
                                                     const json& facts) {
  std::vector<std::string> errors(replicas);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit;
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const rlimit limit{1 << 20, old_limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  comm::run_threads(replicas, [&](comm::World& world) {
    const State state = state_of(world.rank(), 9, world.rank() == big_rank ? 1 << 20 : 5);
    try {
      checkpoint::save(run, 9, state, facts, 1, world, {.replicas = world.size()});
    } catch (const std::exception& error) {
      errors[world.rank()] = one_line(error);
    }
  });
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  return errors;
}

TEST_F(Checkpoint, EveryReplicaGetsItsOwnStateAndScopesBack) {
  save(7, 3, 3);
  for (int replica = 0; replica < 3; ++replica) {
    const Loaded loaded = load(place(7), replica);
    const State wanted = state_of(replica, 7);
    EXPECT_EQ(loaded.facts, kFacts);
    ASSERT_EQ(loaded.state.size(), wanted.size());
    for (const auto& [name, entry] : wanted) {
      const Entry& got = loaded.state.at(name);
      EXPECT_EQ(got.value.scalar_type(), entry.value.scalar_type()) << name;
      EXPECT_TRUE(got.value.equal(entry.value)) << name;
      EXPECT_EQ(got.scope, entry.scope == Scope::all_equal ? Scope::all_equal : Scope::per_replica) << name;
    }
  }
}

TEST_F(Checkpoint, TheManifestHasSizeAndHashOfEveryFile) {
  save(7);
  const json manifest = json::parse(read_file(place(7) / "manifest.json"));
  EXPECT_EQ(manifest["format"], "thinwire-checkpoint");
  EXPECT_EQ(manifest["version"], 1);
  EXPECT_EQ(manifest["step"], 7);
  EXPECT_EQ(manifest["replicas"], 2);
  EXPECT_EQ(manifest["files"].size(), 3u);
  for (const std::string name : {"all.safetensors", "replica-0.safetensors", "replica-1.safetensors"}) {
    const std::string bytes = read_file(place(7) / name);
    EXPECT_EQ(manifest["files"][name]["bytes"], bytes.size());
    EXPECT_EQ(manifest["files"][name]["xxh3"], fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size())));
  }
}

TEST_F(Checkpoint, OnlyTheNewestAreKept) {
  for (int64_t step : {8, 9, 10, 100}) save(step, 2);
  EXPECT_EQ(names(), (std::set<std::string>{"step-10", "step-100"}));
  EXPECT_EQ(newest(run_), 100);
}

TEST_F(Checkpoint, ARunThatWasTakenUpAtAnEarlierStepDropsLaterOnesWhenItSaves) {
  for (int64_t step : {100, 200, 300}) save(step, 3);
  save(150, 3);
  EXPECT_EQ(names(), (std::set<std::string>{"step-100", "step-150"}));
}

TEST_F(Checkpoint, SavingAStepAgainReplacesIt) {
  save(5, 2, 3);
  save(5, 2, 1);
  EXPECT_EQ(names(), std::set<std::string>{"step-5"});
  EXPECT_EQ(load_error(place(5), 0), "no error");
  EXPECT_FALSE(fs::exists(place(5) / "replica-1.safetensors"));
}

TEST_F(Checkpoint, LeftoversOfAnInterruptedSaveAreRemovedAndNothingElse) {
  fs::create_directories(home_ / ".step-3.tmp" / "deep");
  write(home_ / ".step-3.tmp" / "deep" / "x", "x");
  fs::create_directories(home_ / ".step-4.tmp");
  write(home_ / ".step-4.tmp" / "old.safetensors", "x");
  fs::create_directories(home_ / "mine");
  save(4);
  EXPECT_EQ(names(), (std::set<std::string>{"mine", "step-4"}));
  EXPECT_FALSE(fs::exists(place(4) / "old.safetensors"));
}

TEST_F(Checkpoint, NewestGoesByNamesSoThatADamagedOneIsNotPassedOver) {
  EXPECT_EQ(newest(run_), -1);
  fs::create_directories(home_);
  EXPECT_EQ(newest(run_), -1);
  save(12);
  for (const char* name : {"step-14x", "step-", "step--15", "step-016", "step-99999999999999999999", ".step-17.tmp"}) {
    fs::create_directories(home_ / name);
    write(home_ / name / "manifest.json", "{}");
  }
  EXPECT_EQ(newest(run_), 12);
  fs::create_directories(place(13));  // no manifest
  EXPECT_EQ(newest(run_), 13);
  EXPECT_EQ(steps(run_), (std::vector<int64_t>{12, 13}));
}

TEST_F(Checkpoint, AnyFlippedBitIsAnErrorThatNamesTheFile) {
  save(1);
  for (const std::string name : {"manifest.json", "all.safetensors", "replica-1.safetensors"}) {
    const fs::path path = place(1) / name;
    const std::string whole = read_file(path);
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string bytes = whole;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      write(path, bytes);
      const std::string error = load_error(place(1), 1);
      EXPECT_TRUE(error.starts_with(path.string() + ": ")) << bit << " " << error;
      EXPECT_EQ(error.find('\n'), error.npos) << error;
    }
    write(path, whole);
  }
  EXPECT_EQ(load_error(place(1), 1), "no error");
}

TEST_F(Checkpoint, AFileCutShortAnywhereIsAnErrorThatNamesIt) {
  save(1);
  for (const std::string name : {"manifest.json", "all.safetensors", "replica-1.safetensors"}) {
    const fs::path path = place(1) / name;
    const std::string whole = read_file(path);
    const size_t last = whole.size() - (name == "manifest.json");  // its line break says nothing
    for (size_t n = 0; n < last; ++n) {
      write(path, whole.substr(0, n));
      EXPECT_TRUE(load_error(place(1), 1).starts_with(path.string() + ": ")) << n;
    }
    write(path, whole);
  }
}

TEST_F(Checkpoint, ErrorsSayWhatWasWantedAndWhatCame) {
  save(1);
  const std::string at = place(1).string() + "/";
  EXPECT_EQ(load_error(place(2), 0), place(2).string() + "/manifest.json: No such file or directory");
  EXPECT_EQ(load_error(place(1), 2), at + "manifest.json: wanted replica 2, the checkpoint has 2 (counted from 0)");
  EXPECT_EQ(load_error(place(1), -1), at + "manifest.json: wanted replica -1, the checkpoint has 2 (counted from 0)");

  const std::string whole = read_file(place(1) / "all.safetensors");
  const std::string hash = json::parse(read_file(place(1) / "manifest.json"))["files"]["all.safetensors"]["xxh3"];
  write(place(1) / "all.safetensors", whole + "x");
  EXPECT_EQ(load_error(place(1), 0),
            fmt::format("{}all.safetensors: wanted {} bytes, has {}", at, whole.size(), whole.size() + 1));
  write(place(1) / "all.safetensors", whole.substr(1) + "x");
  EXPECT_TRUE(load_error(place(1), 0).starts_with(at + "all.safetensors: damaged, wanted XXH3 " + hash + ", has "));
  fs::remove(place(1) / "all.safetensors");
  EXPECT_EQ(load_error(place(1), 0), at + "all.safetensors: No such file or directory");
}

TEST_F(Checkpoint, VerifyReadsTheFilesOfAllRanks) {
  save(1);
  verify(place(1));
  for (const std::string name :
       {"manifest.json", "all.safetensors", "replica-0.safetensors", "replica-1.safetensors"}) {
    const fs::path path = place(1) / name;
    std::string bytes = read_file(path);
    bytes[bytes.size() / 2] ^= 1;
    const std::string whole = read_file(path);
    write(path, bytes);
    EXPECT_THROW(verify(place(1)), std::exception) << name;
    write(path, whole);
  }
}

TEST_F(Checkpoint, FilesThatAreLinksOrPipesAreRefused) {
  save(1);
  for (const std::string name : {"manifest.json", "all.safetensors"}) {
    const fs::path path = place(1) / name;
    const std::string whole = read_file(path);
    write(home_ / "elsewhere", whole);
    fs::remove(path);
    fs::create_symlink(home_ / "elsewhere", path);
    EXPECT_EQ(load_error(place(1), 0), path.string() + ": a link, and links are not followed here");
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(load_error(place(1), 0), path.string() + ": not a plain file");
    fs::remove(path);
    write(path, whole);
  }
  EXPECT_EQ(load_error(place(1), 0), "no error");
}

TEST_F(Checkpoint, AManifestThatIsNotOneIsAnErrorThatSaysWhy) {
  save(1);
  const fs::path path = place(1) / "manifest.json";
  const json whole = json::parse(read_file(path));
  // A manifest that was changed on purpose, with a hash that fits.
  const auto error = [&](const std::function<void(json&)>& change) {
    json manifest = whole;
    change(manifest);
    manifest.erase("xxh3");
    const std::string text = manifest.dump();
    manifest["xxh3"] = fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
    write(path, manifest.dump());
    const std::string found = load_error(place(1), 0);
    EXPECT_TRUE(found.starts_with(path.string() + ": ")) << found;
    return found.substr(path.string().size() + 2);
  };
  EXPECT_EQ(error([](json& m) { m["format"] = "zip"; }), "not a manifest of thinwire-checkpoint");
  EXPECT_EQ(error([](json& m) { m.erase("format"); }), "has no 'format'");
  EXPECT_EQ(error([](json& m) { m["version"] = 2; }), "wanted version 1, is 2");
  EXPECT_EQ(error([](json& m) { m["version"] = "1"; }), "'version' should be a whole number from 0 up, is string");
  EXPECT_EQ(error([](json& m) { m.erase("step"); }), "has no 'step'");
  EXPECT_EQ(error([](json& m) { m["replicas"] = -2; }), "'replicas' should be a whole number from 0 up, is -2");
  EXPECT_EQ(error([](json& m) { m.erase("facts"); }), "has no 'facts'");
  EXPECT_EQ(error([](json& m) { m["files"] = json::array(); }), "'files' should be object, is array");
  EXPECT_EQ(error([](json& m) { m["files"].erase("all.safetensors"); }), "2 replicas of 1 stages do not have 2 files");
  for (const char* name : {"../../../../etc/shadow", "/etc/shadow", "other.safetensors"})
    EXPECT_EQ(error([&](json& m) {
                m["files"][name] = m["files"]["all.safetensors"];
                m["files"].erase("all.safetensors");
              }),
              "has no 'all.safetensors'");
  for (const uint64_t many : {uint64_t{0}, uint64_t{1} << 32, UINT64_MAX}) {
    EXPECT_EQ(error([&](json& m) { m["replicas"] = many; }),
              fmt::format("{} replicas of 1 stages do not have 3 files", many));
    EXPECT_EQ(error([&](json& m) { m["stages"] = many; }),
              fmt::format("2 replicas of {} stages do not have 3 files", many));
  }
  EXPECT_EQ(error([](json& m) { m["files"]["all.safetensors"]["bytes"] = "9"; }),
            "'bytes' should be a whole number from 0 up, is string");
  EXPECT_EQ(error([](json& m) { m["files"]["all.safetensors"].erase("xxh3"); }), "has no 'xxh3'");
  for (const auto& [text, wanted] : {std::pair<std::string, std::string>{"", "not a JSON object"},
                                     {"[]", "not a JSON object"},
                                     {whole.dump() + std::string(1, '\0'), "not a JSON object"},
                                     {std::string(1'000'000, '['), "nested too deep"},
                                     {R"({"facts":1e999})", "not a JSON object"}}) {
    write(path, text);
    EXPECT_EQ(load_error(place(1), 0), path.string() + ": " + wanted);
  }
}

TEST_F(Checkpoint, AFailedWriteThrowsOnEveryRankAndLeavesOlderCheckpointsAlone) {
  save(5, 3, 3);
  const auto errors = save_errors_on_a_small_disk(run_, 3, 1, kFacts);
  const std::string draft = (home_ / ".step-9.tmp").string();
  EXPECT_EQ(errors[0], "rank 1: " + errors[1]);
  EXPECT_EQ(errors[1], draft + "/replica-1.safetensors: File too large");
  EXPECT_EQ(errors[2], "rank 1: " + errors[1]);
  EXPECT_EQ(names(), std::set<std::string>{"step-5"});
  EXPECT_EQ(load_error(place(5), 2), "no error");
}

TEST_F(Checkpoint, AManifestThatCannotBeWrittenFailsTheSaveOnEveryRank) {
  save(5);
  const auto errors = save_errors_on_a_small_disk(run_, 2, -1, {{"long", std::string(2 << 20, 'x')}});
  const std::string draft = (home_ / ".step-9.tmp").string();
  EXPECT_EQ(errors[0], draft + "/manifest.json: File too large");
  EXPECT_EQ(errors[1], "rank 0: " + errors[0]);
  EXPECT_EQ(names(), std::set<std::string>{"step-5"});
}

TEST_F(Checkpoint, ARunFolderThatCannotBeMadeFailsTheSaveOnEveryRank) {
  write(run_, "a file where the folder should be");
  std::vector<std::string> errors(2);
  comm::run_threads(2, [&](comm::World& world) {
    try {
      checkpoint::save(run_, 1, state_of(world.rank(), 1), kFacts, 1, world, {.replicas = world.size()});
    } catch (const std::exception& error) {
      errors[world.rank()] = one_line(error);
    }
  });
  EXPECT_EQ(errors[0], run_.string() + " is not a directory");
  EXPECT_EQ(errors[1], "rank 0: " + errors[0]);
}

TEST_F(Checkpoint, FactsThatCouldNotBeReadBackAreNotSaved) {
  json deep;
  for (int i = 0; i < 100; ++i) deep = json::array({deep});
  comm::run_threads(1, [&](comm::World& world) {
    EXPECT_THROW(checkpoint::save(run_, 1, state_of(0, 1), deep, 1, world, {.replicas = world.size()}), c10::Error);
  });
  EXPECT_EQ(newest(run_), -1);
}

TEST_F(Checkpoint, WrongNumbersAreWrongCalls) {
  comm::run_threads(1, [&](comm::World& world) {
    const auto error = [&](int64_t step, int64_t keep) -> std::string {
      try {
        checkpoint::save(run_, step, {}, {}, keep, world, {.replicas = world.size()});
      } catch (const c10::Error& thrown) {
        return one_line(thrown);
      }
      return "no error";
    };
    EXPECT_EQ(error(-1, 1), "[checkpoint] step must be at least 0, got -1");
    EXPECT_EQ(error(0, 0), "[checkpoint] keep must be at least 1, got 0");
    EXPECT_EQ(error(0, 1), "no error");
  });
}

TEST_F(Checkpoint, WithoutASharedDiskEveryRankKeepsItsOwnPartAndTheManifest) {
  comm::run_threads(2, [&](comm::World& world) {
    world.shares_disk = false;
    const fs::path own = run_ / std::to_string(world.rank());
    checkpoint::save(own, 7, state_of(world.rank(), 7), kFacts, 1, world, {.replicas = 2});
    const auto loaded = load(own / "checkpoints" / "step-7", world.rank());
    EXPECT_EQ(loaded.facts, kFacts);
    EXPECT_EQ(loaded.state.size(), state_of(world.rank(), 7).size());
    EXPECT_THROW(load(own / "checkpoints" / "step-7", 1 - world.rank()), std::exception)
        << "the other's part is elsewhere";
  });
}

TEST_F(Checkpoint, OneThatWasBeingSavedAgainWhenTheMachineStoppedIsPutBack) {
  save(40);
  fs::rename(home_ / "step-40", home_ / ".step-40.old");  // between the two renames
  fs::create_directories(home_ / ".step-40.tmp");
  EXPECT_EQ(newest(run_), -1);
  recover(run_);
  EXPECT_EQ(newest(run_), 40);
  EXPECT_EQ(load(home_ / "step-40", 0).facts, kFacts);
}

}  // namespace
}  // namespace thinwire::checkpoint
