#include "thinwire/base/atomic_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <xxhash.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>

#include "tests/base/temporary_folder.h"
#include "thinwire/base/errors.h"
#include "thinwire/base/read_file.h"

namespace thinwire {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

class AtomicFile : public TemporaryFolder {
 protected:
  std::string refusal(const fs::path& path) const {
    try {
      write_file(path, {"new"});
    } catch (const BadInput& error) {
      return error.what();
    }
    return "none";
  }

  const fs::path path_ = home_ / "page.html";
};

// No file may grow beyond so many bytes, while this lives.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_;
};

TEST_F(AtomicFile, HoldsItsPartsInTheirOrderAndTellsSizeAndHash) {
  const Written written = write_file(path_, {"one ", "", "two"});
  EXPECT_EQ(read_file(path_), "one two");
  EXPECT_EQ(written.bytes, 7);
  EXPECT_EQ(written.xxh3, XXH3_64bits("one two", 7));
  EXPECT_EQ(write_file(home_ / "empty", {}).bytes, 0);
  EXPECT_EQ(read_file(home_ / "empty"), "");
}

TEST_F(AtomicFile, ReplacesTheOldFileAndNotItsOtherNames) {
  write_file(path_, {"old"});
  fs::create_hard_link(path_, home_ / "kept");
  write_file(path_, {"new"});
  EXPECT_EQ(read_file(path_), "new");
  EXPECT_EQ(read_file(home_ / "kept"), "old");
  EXPECT_EQ(names(), (Names{"page.html", "kept"}));
}

TEST_F(AtomicFile, HasTheModeThatTheUmaskLeaves) {
  const mode_t before = ::umask(027);
  write_file(path_, {"x"});
  ::umask(before);
  EXPECT_EQ(static_cast<int>(fs::status(path_).permissions()), 0640);
}

TEST_F(AtomicFile, AFailedWriteLeavesTheOldFileAndNoTemporary) {
  write_file(path_, {"old"});
  {
    const SmallDisk disk(4096);
    try {
      write_file(path_, {"new", std::string(10000, 'x')});
      FAIL() << "nothing was thrown";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), std::errc::file_too_large);
      EXPECT_EQ(std::string(error.what()), path_.string() + ": File too large");
    }
  }
  EXPECT_EQ(read_file(path_), "old");
  EXPECT_EQ(names(), Names{"page.html"});
}

TEST_F(AtomicFile, AFolderThatIsNotThereIsTheReason) {
  try {
    write_file(home_ / "no" / "page.html", {"x"});
    FAIL() << "nothing was thrown";
  } catch (const std::system_error& error) {
    EXPECT_EQ(std::string(error.what()), (home_ / "no" / "page.html").string() + ": No such file or directory");
  }
}

TEST_F(AtomicFile, ALinkInThePlaceOfTheTemporaryIsNotFollowed) {
  write_file(home_ / "precious", {"mine"});
  const std::string temporary = fmt::format(".page.html.{}-0.tmp", ::getpid());
  fs::create_symlink("precious", home_ / temporary);
  write_file(path_, {"new"});
  EXPECT_EQ(read_file(path_), "new");
  EXPECT_EQ(read_file(home_ / "precious"), "mine");
  EXPECT_TRUE(fs::is_symlink(home_ / temporary));
}

TEST_F(AtomicFile, OnlyPlainFilesAreReplaced) {
  write_file(home_ / "precious", {"mine"});
  fs::create_directory(home_ / "folder");
  fs::create_symlink("precious", home_ / "link");
  fs::create_symlink("nowhere", home_ / "dangling");
  ASSERT_EQ(::mkfifo((home_ / "pipe").c_str(), 0600), 0);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string place = (home_ / "socket").string();
  ASSERT_LT(place.size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, place.c_str());
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(socket);
  const Names before = names();

  for (const auto& [name, what] : {std::pair<std::string, std::string>{"folder", "a folder"},
                                   {"link", "a link"},
                                   {"dangling", "a link"},
                                   {"pipe", "a pipe"},
                                   {"socket", "a socket"}})
    EXPECT_EQ(refusal(home_ / name),
              fmt::format("{} is {}: only a plain file is replaced", (home_ / name).string(), what));
  EXPECT_EQ(refusal("/dev/null"), "/dev/null is a device: only a plain file is replaced");
  EXPECT_EQ(names(), before);
  EXPECT_EQ(read_file(home_ / "precious"), "mine");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(AtomicFile, LeftoversOfKilledWritersGoAndNothingElseDoes) {
  const Names others = {"page.html", ".page.html.tmp", ".page.html.old-1.tmp", ".page.html.bak.12-0.tmp",
                        ".other.12-0.tmp"};
  for (const std::string& name : others) std::ofstream(home_ / name) << "x";
  for (const char* name : {".page.html.12-0.tmp", ".page.html.345-17.tmp"}) std::ofstream(home_ / name) << "half";
  remove_leftovers(path_);
  EXPECT_EQ(names(), others);
  remove_leftovers(home_ / "no" / "page.html");
}

TEST_F(AtomicFile, AVeryLongNameIsANameToo) {
  const std::string name(255, 'n');
  write_file(home_ / name, {"x"});
  EXPECT_EQ(names(), Names{name});
}

TEST_F(AtomicFile, OfManyWritersOneWinsWhole) {
  const auto text = [](int writer) { return std::string(100'000, static_cast<char>('a' + writer)); };
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&, i] {
      for (int again = 0; again < 5; ++again) write_file(path_, {text(i)});
    });
  for (auto& writer : writers) writer.join();
  const std::string left = read_file(path_);
  EXPECT_EQ(left, text(left.at(0) - 'a'));
  EXPECT_EQ(names(), Names{"page.html"});
}

}  // namespace
}  // namespace thinwire
