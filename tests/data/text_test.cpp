#include "thinwire/data/text.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "thinwire/base/errors.h"

namespace thinwire::data {
namespace {
namespace fs = std::filesystem;

// A folder of the test's own, gone when the test is over.
class TextTest : public testing::Test {
 protected:
  TextTest() { fs::create_directories(folder_); }
  ~TextTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
  std::string folder() const { return folder_.string(); }

 private:
  const fs::path folder_ =
      fs::path(testing::TempDir()) /
      ("thinwire-" + std::to_string(::getpid()) + "-" + testing::UnitTest::GetInstance()->current_test_info()->name());
};
using Load = TextTest;
using Sample = TextTest;
using HeldOut = TextTest;

// n bytes of which any eight in a row are different from any other eight.
std::string counting(int n) {
  std::string text;
  for (int i = 0; static_cast<int>(text.size()) < n; ++i) text += std::to_string(1000 + i);
  return text.substr(0, n);
}

std::string to_string(const at::Tensor& bytes) {
  const at::Tensor b = bytes.to(at::kByte).contiguous();
  return {reinterpret_cast<const char*>(b.const_data_ptr<uint8_t>()), static_cast<size_t>(b.numel())};
}

std::string error_of(const DataOptions& options, int64_t context = 4) {
  try {
    load_text(options, context);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(Load, HoldsOutTheLastPartOfAFile) {
  const auto text = load_text({.path = write("a.txt", "0123456789abcdefghij"), .held_out = 0.25}, 4);
  EXPECT_EQ(to_string(text->train), "0123456789abcde");
  EXPECT_EQ(to_string(text->held_out), "fghij");
  EXPECT_EQ(text->train.scalar_type(), at::kByte);
  EXPECT_EQ(text->files, 1);
}

TEST_F(Load, HoldsOutTheLastPartOfEachFileInTheOrderOfTheirPaths) {
  write("b.txt", "BBBBBbbbbb");
  write("a/deep/er.txt", "AAAAAaaaaa");
  write("c.txt", "CCCCCccccc");
  const auto text = load_text({.path = folder(), .held_out = 0.5}, 4);
  EXPECT_EQ(to_string(text->train), "AAAAABBBBBCCCCC");
  EXPECT_EQ(to_string(text->held_out), "aaaaabbbbbccccc");
  EXPECT_EQ(text->files, 3);
}

TEST_F(Load, EveryByteIsInOnePartOnly) {
  for (int n : {1, 2, 3, 7, 19, 100}) write("n" + std::to_string(1000 + n), std::string(n, static_cast<char>(n)));
  const auto text = load_text({.path = folder(), .held_out = 0.05}, 4);
  EXPECT_EQ(text->train.numel() + text->held_out.numel(), 1 + 2 + 3 + 7 + 19 + 100);
  EXPECT_EQ(to_string(text->held_out), std::string(5, 100));  // too short to hold out: the others
}

TEST_F(Load, OfAFolderOnlyTextThatEndsInTheSuffixIsTaken) {
  write("yes.py", "0123456789");
  write("other.txt", "x");
  write("binary.py", std::string("a\0b", 3));
  write("empty.py", "");
  write(".hidden.py", "x");
  write(".git/hidden.py", "x");
  const auto text = load_text({.path = folder(), .suffix = ".py", .held_out = 0.5}, 4);
  EXPECT_EQ(text->files, 1);
  EXPECT_EQ(to_string(text->train), "01234");
}

TEST_F(Load, OfAFolderNothingIsTakenFromFoldersInSkip) {
  write("yes.py", "0123456789");
  write("tests/no.py", "x");
  write("deep/site-packages/deeper/no.py", "x");
  EXPECT_EQ(load_text({.path = folder(), .held_out = 0.5}, 4)->files, 3);
  EXPECT_EQ(load_text({.path = folder(), .skip = "tests, site-packages", .held_out = 0.5}, 4)->files, 1);
}

TEST_F(Load, AFileGivenByItsPathIsTakenAsItIs) {
  const std::string bytes("\0\xff\0\x80hidden, binary, not .py", 26);
  const auto text = load_text({.path = write(".raw", bytes), .suffix = ".py", .held_out = 0.5}, 4);
  EXPECT_EQ(to_string(text->train) + to_string(text->held_out), bytes);
}

TEST_F(Load, ALinkToNothingIsNoFile) {
  write("a.txt", "0123456789");
  fs::create_symlink(folder() + "/gone", folder() + "/link.txt");
  EXPECT_EQ(load_text({.path = folder(), .held_out = 0.5}, 4)->files, 1);
}

TEST_F(Load, TheHashNoticesAChangedByteAndAChangedSplit) {
  const auto hash = [&](const std::string& bytes, double held_out) {
    return load_text({.path = write("a", bytes), .held_out = held_out}, 4)->hash;
  };
  const uint64_t plain = hash("0123456789abcdefghij", 0.25);
  EXPECT_EQ(plain, hash("0123456789abcdefghij", 0.25));
  EXPECT_NE(plain, hash("0123456789abcdefghij", 0.3));
  EXPECT_NE(plain, hash("1123456789abcdefghij", 0.25));
  EXPECT_NE(plain, hash("0123456789abcdefghik", 0.25));
}

TEST_F(Load, AnEmptyPathStandsForTheSourcesOfPython) {
  DataOptions o;
  resolve(o);
  EXPECT_TRUE(fs::exists(o.path + "/os.py"));
  EXPECT_EQ(o.suffix, ".py");
  const auto text = load_text({}, 64), same = load_text(o, 64);
  EXPECT_EQ(text->hash, same->hash);
  EXPECT_GT(text->files, 100);
  EXPECT_NE(to_string(text->train).find("import"), std::string::npos);
}

TEST_F(Load, AGivenPathOnlyBecomesAbsolute) {
  DataOptions o{.path = "some/../where"};
  resolve(o);
  EXPECT_EQ(o.path, (std::filesystem::current_path() / "where").string());
  EXPECT_EQ(o.suffix + o.skip, "");
}

TEST_F(Load, AMissingPathIsBadInput) {
  EXPECT_EQ(error_of({.path = folder() + "/gone"}), "data.path: no file or folder " + folder() + "/gone");
}

TEST_F(Load, AnEmptyFileIsBadInput) {
  const std::string path = write("a.txt", "");
  EXPECT_EQ(error_of({.path = path}), "data.path: file " + path + " is empty");
}

TEST_F(Load, AFolderWithoutTextIsBadInput) {
  write("picture", std::string(9, '\0'));
  EXPECT_EQ(error_of({.path = folder()}), "data.path: no text file in folder " + folder());
  EXPECT_EQ(error_of({.path = folder(), .suffix = ".py"}),
            "data.path: no text file that ends in \".py\" in folder " + folder());
}

TEST_F(Load, AFileThatCannotBeReadIsBadInput) {  // nothing is mapped at address 0, not even for root
  EXPECT_EQ(error_of({.path = "/proc/self/mem"}), "data.path: cannot read file /proc/self/mem: Input/output error");
}

TEST_F(Load, APipeIsBadInput) {
  const std::string path = folder() + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(error_of({.path = path}), "data.path: " + path + " is neither a file nor a folder");
}

TEST_F(Load, ATextTooShortForTheContextIsBadInput) {
  const std::string path = write("a.txt", counting(100));
  EXPECT_EQ(error_of({.path = path, .held_out = 0.5}, 50),
            "data.path: the training part of " + path + " must be at least context + 1 = 51 bytes, got 50");
  EXPECT_EQ(error_of({.path = path, .held_out = 0.1}, 10),
            "data.path: the held-out part of " + path + " must be at least context + 1 = 11 bytes, got 10");
  EXPECT_EQ(error_of({.path = path, .held_out = 0.1}, 9), "no error");
}

TEST_F(Sample, RowsAreWindowsOfTheTrainingPartAndTargetsAreOneLater) {
  const auto text = load_text({.path = write("a.txt", counting(1000)), .held_out = 0.5}, 16);
  const Batch batch = sample(*text, 1, 2, 3, 20, 16);
  ASSERT_EQ(batch.tokens.sizes(), (std::vector<int64_t>{20, 16}));
  ASSERT_EQ(batch.tokens.scalar_type(), at::kLong);
  const std::string train = to_string(text->train);
  for (int64_t row = 0; row < 20; ++row) {
    const size_t start = train.find(to_string(batch.tokens[row]));
    ASSERT_NE(start, std::string::npos);
    EXPECT_EQ(to_string(batch.targets[row]), train.substr(start + 1, 16));
  }
}

TEST_F(Sample, IsAFunctionOfSeedStepReplicaAndRow) {
  const auto text = load_text({.path = write("a.txt", counting(10000))}, 16);
  const Batch batch = sample(*text, 1, 2, 3, 4, 16);
  EXPECT_TRUE(at::equal(batch.tokens, sample(*text, 1, 2, 3, 4, 16).tokens));
  EXPECT_TRUE(
      at::equal(batch.tokens, sample(*text, 1, 2, 3, 9, 16).tokens.narrow(0, 0, 4)));  // more rows: a longer list
  EXPECT_FALSE(at::equal(batch.tokens, sample(*text, 2, 2, 3, 4, 16).tokens));
  EXPECT_FALSE(at::equal(batch.tokens, sample(*text, 1, 3, 3, 4, 16).tokens));
  EXPECT_FALSE(at::equal(batch.tokens, sample(*text, 1, 2, 4, 4, 16).tokens));
  EXPECT_FALSE(at::equal(batch.tokens, sample(*text, 1, 3, 2, 4, 16).tokens));  // step and replica are not just added
  EXPECT_FALSE(at::equal(batch.tokens[0], batch.tokens[1]));
}

TEST_F(Sample, ReachesEveryPlaceOfTheTrainingPart) {
  const auto text = load_text({.path = write("a.txt", "0123456789abcdefghij"), .held_out = 0.5}, 4);
  const at::Tensor tokens = sample(*text, 0, 0, 0, 500, 4).tokens;
  std::set<std::string> seen;
  for (int64_t row = 0; row < 500; ++row) seen.insert(to_string(tokens[row]));
  EXPECT_EQ(seen, (std::set<std::string>{"0123", "1234", "2345", "3456", "4567", "5678"}));
}

TEST_F(Sample, AWindowLongerThanTheTextIsAnError) {
  const auto text = load_text({.path = write("a.txt", "0123456789"), .held_out = 0.5}, 4);
  EXPECT_THROW(sample(*text, 0, 0, 0, 1, 5), c10::Error);
}

TEST_F(HeldOut, WindowsGoFromTheFirstByteToTheLastWithoutOverlapWhereTheyFit) {
  const auto text = load_text({.path = write("a.txt", "..........abcdefghij"), .held_out = 0.5}, 3);
  const Batch batch = held_out(*text, 3, 0, 1, 3);
  EXPECT_EQ(to_string(batch.tokens), "abcdefghi");
  EXPECT_EQ(to_string(batch.targets), "bcdefghij");
}

TEST_F(HeldOut, MoreWindowsThanPlacesOverlap) {
  const auto text = load_text({.path = write("a.txt", "..........abcdefghij"), .held_out = 0.5}, 8);
  EXPECT_EQ(to_string(held_out(*text, 4, 0, 1, 8).tokens),
            "abcdefgh"
            "abcdefgh"
            "abcdefgh"
            "bcdefghi");
}

TEST_F(HeldOut, OneWindowIsTheFirst) {
  const auto text = load_text({.path = write("a.txt", "..........abcdefghij"), .held_out = 0.5}, 3);
  EXPECT_EQ(to_string(held_out(*text, 1, 0, 1, 3).tokens), "abc");
}

TEST_F(HeldOut, RanksThatShareTheWindowsSeeEachOnce) {
  const auto text = load_text({.path = write("a.txt", counting(1000)), .held_out = 0.5}, 16);
  const at::Tensor all = held_out(*text, 10, 0, 1, 16).tokens;
  for (int64_t rank = 0; rank < 3; ++rank) {
    const at::Tensor mine = held_out(*text, 10, rank, 3, 16).tokens;
    ASSERT_EQ(mine.size(0), rank == 0 ? 4 : 3);
    for (int64_t i = 0; i < mine.size(0); ++i) EXPECT_TRUE(at::equal(mine[i], all[rank + 3 * i]));
  }
}

TEST_F(HeldOut, ARankWithoutWindowsGetsNoRows) {
  const auto text = load_text({.path = write("a.txt", counting(1000)), .held_out = 0.5}, 16);
  EXPECT_EQ(held_out(*text, 2, 2, 4, 16).tokens.sizes(), (std::vector<int64_t>{0, 16}));
}

TEST(DataOptionsTest, AHeldOutShareAboveOneHalfIsBadInput) {
  DataOptions o;
  EXPECT_THROW(read_section({{"held_out", 0.6}}, "data", o), BadInput);
  EXPECT_THROW(read_section({{"held_out", 0.0}}, "data", o), BadInput);
}

}  // namespace
}  // namespace thinwire::data
