#include "thinwire/pipeline/activation_codec.h"

#include <gtest/gtest.h>

#include "thinwire/base/errors.h"
#include "thinwire/pipeline/options.h"

namespace thinwire::pipeline {
namespace {

PipelineOptions read(const Table& table) {
  PipelineOptions options;
  read_section(table, "pipeline", options);
  return options;
}

std::string error_of(const Table& table) {
  try {
    read(table);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(ActivationCodec, IsACodecOrAThreshold) {
  for (const char* text : {"none", "bf16", "int8", "topk:0.01"}) {
    EXPECT_EQ(to_text(read({{"codec", text}}).codec), text);
    EXPECT_FALSE(read({{"codec", text}}).codec.keep()) << text;
  }
  EXPECT_EQ(read({{"codec", "threshold:0.1"}}).codec.keep(), 0.1);
  EXPECT_EQ(read({{"codec", "threshold:1"}}).codec.keep(), 1.0);
}

TEST(ActivationCodec, SaysWhatThereIs) {
  EXPECT_EQ(error_of({{"codec", "zip"}}),
            "pipeline.codec: there is no codec \"zip\" between stages (there are: none, one_bit, int8, int4, int2, "
            "bf16, half, topk:SHARE, threshold:KEEP)");
  EXPECT_EQ(error_of({{"codec", "threshold"}}).substr(0, 50), "pipeline.codec: there is no codec \"threshold\" betw");
  for (const std::string wrong : {"threshold:", "threshold:0", "threshold:1.5", "threshold:0.1x", "threshold:nan"})
    EXPECT_EQ(
        error_of({{"codec", wrong}}),
        "pipeline.codec: threshold wants a share above 0 and up to 1, like \"threshold:0.1\", got \"" + wrong + "\"");
  EXPECT_EQ(error_of({{"codec", "topk:2"}}).substr(0, 34), "pipeline.codec: topk wants a share");
}

TEST(ActivationCodec, IsRenewedOnlyWhereThereIsAThreshold) {
  EXPECT_EQ(read({{"codec", "threshold:0.1"}}).codec.renew, 50);
  EXPECT_EQ(read({{"codec", "threshold:0.1"}, {"renew", int64_t{7}}}).codec.renew, 7);
  EXPECT_EQ(error_of({{"codec", "threshold:0.1"}, {"renew", int64_t{0}}}), "pipeline.renew must be at least 1, got 0");
  EXPECT_EQ(error_of({{"codec", "int8"}, {"renew", int64_t{7}}}).substr(0, 26), "unknown key pipeline.renew");
}

}  // namespace
}  // namespace thinwire::pipeline
