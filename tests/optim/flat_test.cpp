#include "thinwire/optim/flat.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "thinwire/base/errors.h"
#include "thinwire/base/random.h"

namespace thinwire::optim {
namespace {

at::Tensor parameter(const char* name, std::vector<int64_t> sizes) {
  return at::empty(sizes, at::kFloat).normal_(0, 1, generator(1, name)).requires_grad_();
}

struct Model {
  at::Tensor w = parameter("w", {20, 30}), b = parameter("b", {30}), head = parameter("head", {30, 50});
  const at::Tensor w0 = w.detach().clone(), b0 = b.detach().clone(), head0 = head.detach().clone();
  Flat flat{{{w, b}, {head}}};
};

at::Tensor part(const at::Tensor& flat, const Flat& of, int tensor) {
  const Piece& piece = of.layout().pieces[tensor];
  return flat.narrow(0, piece.at, piece.numel).view(of.parameters()[tensor].sizes());
}

int64_t not_zero(const at::Tensor& x) { return x.count_nonzero().item<int64_t>(); }

TEST(Flat, ParametersKeepTheirValuesAndBecomeViews) {
  Model m;
  EXPECT_TRUE(at::equal(m.w, m.w0));
  EXPECT_TRUE(at::equal(m.b, m.b0));
  EXPECT_TRUE(at::equal(m.head, m.head0));
  m.flat.x.mul_(2);
  EXPECT_TRUE(at::equal(m.w, m.w0 * 2));
  EXPECT_TRUE(at::equal(m.head, m.head0 * 2));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(m.flat.parameters()[i].data_ptr(), part(m.flat.x, m.flat, i).data_ptr());
}

TEST(Flat, PaddingIsZero) {
  Model m;
  EXPECT_EQ(m.flat.x.numel(), 3 * 1024);
  EXPECT_EQ(not_zero(m.flat.x), 20 * 30 + 30 + 30 * 50);
  EXPECT_EQ(not_zero(m.flat.grad), 0);
}

TEST(Flat, AModelInBf16ComputesWithRoundedWeightsAndLosesNoneOfTheirBits) {
  at::Tensor w = parameter("w", {20, 30}), b = parameter("b", {30});
  const at::Tensor w0 = w.detach().clone();
  Flat flat({{w, b}}, {}, at::kBFloat16);
  EXPECT_EQ(w.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(w, w0.to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(part(flat.x, flat, 0), w0));
  flat.x.mul_(1 + 1e-4);  // less than bf16 can say
  flat.refresh();
  EXPECT_TRUE(at::equal(part(flat.x, flat, 0), w0 * (1 + 1e-4f)));
  EXPECT_TRUE(at::equal(w, part(flat.x, flat, 0).to(at::kBFloat16)));
  flat.bind(flat.x * 2);
  EXPECT_TRUE(at::equal(w, (part(flat.x, flat, 0) * 2).to(at::kBFloat16)));
}

TEST(Flat, AModelInBf16HasItsGradientsCopiedIntoTheFlatOne) {
  at::Tensor w = parameter("w", {20, 30}), b = parameter("b", {30});
  Flat flat({{w, b}}, {}, at::kBFloat16);
  ((w * 3).sum() + (b * 5).sum()).backward();
  EXPECT_EQ(not_zero(flat.grad), 0);
  flat.grad_ready(0);
  EXPECT_TRUE(at::equal(part(flat.grad, flat, 0), at::full_like(flat.x.narrow(0, 0, 600), 3).view({20, 30})));
  EXPECT_EQ(not_zero(part(flat.grad, flat, 1)), 0);
  flat.grad_ready(1);
  EXPECT_EQ(part(flat.grad, flat, 1).sum().item<double>(), 5 * 30);
  flat.zero_grad();
  EXPECT_EQ(not_zero(flat.grad) + not_zero(w.grad()), 0);
}

TEST(Flat, MatricesThatShareAParameterLieOneAfterTheOther) {
  const Flat flat({{at::zeros({5, 7})}, {at::zeros({6, 4}), at::zeros({8})}}, {.matrices = {0, 3, 0}});
  ASSERT_EQ(flat.layout().matrices.size(), 3);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(flat.layout().matrices[i].at, 1024 + 8 * i);
    EXPECT_EQ(flat.layout().matrices[i].rows, 2);
    EXPECT_EQ(flat.layout().matrices[i].columns, 4);
  }
  EXPECT_THROW(Flat({{at::zeros({5, 7})}}, {.matrices = {3}}), c10::Error);
  EXPECT_THROW(Flat({{at::zeros({5, 7})}}, {.matrices = {1, 1}}), c10::Error);
}

TEST(Flat, BackwardAddsIntoTheFlatGradient) {
  Model m;
  const auto loss = [&] { return (m.w * m.w).sum() + (m.b * 3).sum(); };
  loss().backward();
  loss().backward();
  EXPECT_TRUE(at::allclose(part(m.flat.grad, m.flat, 0), m.w0 * 4));
  EXPECT_TRUE(at::equal(part(m.flat.grad, m.flat, 1), at::full_like(m.b0, 6)));
  EXPECT_EQ(not_zero(part(m.flat.grad, m.flat, 2)), 0);
  EXPECT_EQ(not_zero(m.flat.grad), 20 * 30 + 30);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(m.flat.parameters()[i].grad().data_ptr(), part(m.flat.grad, m.flat, i).data_ptr());
}

TEST(Flat, ZeroingTheFlatGradientStartsAnew) {
  Model m;
  for (int step = 0; step < 3; ++step) {
    m.flat.grad.zero_();
    m.b.sum().backward();
    EXPECT_TRUE(at::equal(m.b.grad(), at::full_like(m.b0, 1)));
  }
}

TEST(Flat, BindSwapsVersionsAndBack) {
  Model m;
  const at::Tensor other = m.flat.x + 1;
  m.flat.bind(other);
  EXPECT_TRUE(at::equal(m.w, m.w0 + 1));
  (m.w * m.w).sum().backward();
  EXPECT_TRUE(at::allclose(part(m.flat.grad, m.flat, 0), (m.w0 + 1) * 2));
  m.flat.x.mul_(2);  // is not seen through the other version
  EXPECT_TRUE(at::equal(m.w, m.w0 + 1));
  m.flat.bind(m.flat.x);
  EXPECT_TRUE(at::equal(m.w, m.w0 * 2));
  EXPECT_TRUE(at::equal(part(other, m.flat, 0), m.w0 + 1));
}

TEST(Flat, AWrongCallIsAnError) {
  const auto error_of = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const std::exception& error) {
      return one_line(error);
    }
    return "no error";
  };
  Model m;
  EXPECT_EQ(error_of([&] { m.flat.bind(at::zeros({5})); }), "[optim.flat] wanted 3072 weights, got 5");
  EXPECT_EQ(error_of([] { Flat({{at::zeros({2}, at::kDouble)}}); }), "[optim.flat] parameters are fp32, got Double");
  EXPECT_EQ(error_of([&] {
              Flat({{m.w, m.b}, {m.w}});
            }),
            "[optim.flat] parameter 2 is listed twice: a shared weight belongs to one unit");
}

TEST(WeightsHash, ChangesWithAnyWeightAndNotWithPadding) {
  const Layout layout = make_layout({{at::empty({7})}, {at::empty({2, 3})}});
  const at::Tensor x = at::empty({layout.numel}, at::kFloat).normal_(0, 1, generator(1, "x"));
  const std::string hash = weights_hash(layout, x);
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(hash.find_first_not_of("0123456789abcdef"), std::string::npos);
  for (int64_t i = 0; i < layout.numel; ++i) {
    at::Tensor changed = x.clone();
    changed[i] = -changed[i];
    const bool weight = i < 7 || (1024 <= i && i < 1024 + 6);
    ASSERT_EQ(weights_hash(layout, changed) != hash, weight) << i;
  }
}

TEST(WeightsHash, DependsOnTheValuesInTheirOrderAndNotOnTheCut) {
  Model m;
  Flat other({{m.w.detach().clone()}, {m.b.detach().clone()}, {m.head.detach().clone()}});
  EXPECT_EQ(weights_hash(other.layout(), other.x), weights_hash(m.flat.layout(), m.flat.x));
  Flat swapped({{m.b.detach().clone(), m.w.detach().clone()}, {m.head.detach().clone()}});
  EXPECT_NE(weights_hash(swapped.layout(), swapped.x), weights_hash(m.flat.layout(), m.flat.x));
}

}  // namespace
}  // namespace thinwire::optim
