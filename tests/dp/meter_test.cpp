#include "thinwire/dp/meter.h"

#include <gtest/gtest.h>

#include <thread>

namespace thinwire::dp {
namespace {

struct Nap final : comm::Work {
  void wait() override { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }
  bool done() const override { return false; }
};

TEST(Meter, WhatARuleWaitsIsWaitingAndNotTheRules) {
  Meter meter;
  auto trace = std::make_shared<Trace>(10);
  meter.record(trace);
  Nap nap;
  meter.run_rule([&] { meter.wait(nap); });
  EXPECT_GE(meter.exposed_s(), 0.05);
  EXPECT_GE(meter.update_s(), 0);
  EXPECT_LT(meter.update_s(), 0.04);
  EXPECT_EQ(trace->of(TraceKind::wait).size(), 1u);
}

}  // namespace
}  // namespace thinwire::dp
