#include "thinwire/optim/muon.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "tests/optim/small_layout.h"
#include "thinwire/optim/catalog.h"

namespace thinwire::optim {
namespace {

// Muon takes the first tensor; the rest is two of its pieces.
Layout with_a_matrix() {
  Layout layout = kLayout;
  layout.matrices = {{kLayout.pieces[0].at, 30, 40}};
  return layout;
}

at::Tensor part(const at::Tensor& x, size_t piece) {
  return x.narrow(0, kLayout.pieces[piece].at, kLayout.pieces[piece].numel);
}

TEST(Muon, TheRestIsTheRuleThatWasAskedFor) {
  const NadamwOptions nadamw;
  const AdamwOptions adamw{.betas = {0.9, 0.99}};
  Muon with_nadamw(with_a_matrix(), {.nadamw = nadamw}), with_adamw(with_a_matrix(), {.adamw = adamw});
  Nadamw all_nadamw(kLayout, nadamw);
  Adamw all_adamw(kLayout, adamw);
  const at::Tensor a = numbers("x"), b = a.clone(), c = a.clone(), d = a.clone();
  run(with_nadamw, a, 1, 10);
  run(all_nadamw, b, 1, 10);
  run(with_adamw, c, 1, 10);
  run(all_adamw, d, 1, 10);
  for (size_t piece : {1, 2}) {
    EXPECT_TRUE(at::equal(part(a, piece), part(b, piece))) << piece;
    EXPECT_TRUE(at::equal(part(c, piece), part(d, piece))) << piece;
    EXPECT_FALSE(at::equal(part(a, piece), part(c, piece))) << piece;
  }
  EXPECT_TRUE(at::equal(part(a, 0), part(c, 0))) << "the matrix does not know the rest";
}

TEST(Muon, ASavedStateContinuesToTheBitWithEitherRest) {
  for (const bool nadamw : {false, true}) {
    MuonOptions options;
    if (nadamw) options.nadamw = NadamwOptions();
    Muon straight(with_a_matrix(), options), resumed(with_a_matrix(), options);
    const at::Tensor x = numbers("x");
    run(straight, x, 1, 5);
    const at::Tensor again = x.clone();
    resumed.load(straight.state());
    run(straight, x, 6, 10);
    run(resumed, again, 6, 10);
    EXPECT_TRUE(at::equal(x, again)) << nadamw;
  }
}

TEST(Muon, ItsRestHasNadamwsBetasUnlessTheRecipeGivesThem) {
  OptimOptions plain, own, given;
  const Value muon = std::string("muon"), nadamw = std::string("nadamw");
  read_section({{"name", muon}}, "optim", plain);
  read_section({{"name", muon}, {"rest", nadamw}}, "optim", own);
  read_section({{"name", muon}, {"rest", nadamw}, {"betas", std::vector{0.9, 0.95}}}, "optim", given);
  EXPECT_EQ(plain.rest, "adamw");
  EXPECT_EQ(plain.betas, (std::array{0.9, 0.99}));
  EXPECT_EQ(own.betas, (std::array{0.99, 0.999}));
  EXPECT_EQ(given.betas, (std::array{0.9, 0.95}));
}

}  // namespace
}  // namespace thinwire::optim
