#include "thinwire/train/recipe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <random>

#include "thinwire/base/errors.h"

namespace thinwire::train {
namespace {

Recipe recipe_of(const std::string& toml, const std::vector<std::string>& keys = {}) {
  auto text = parse_recipe(toml, "mine.toml");
  set_keys(text, keys);
  return make_recipe(text);
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const BadInput& error) {
    return error.what();
  }
  return "no error";
}
std::string error_in(const std::string& toml) {
  return error_of([&] { recipe_of(toml); });
}

Value value_of(const std::string& assignment) {
  RecipeText text;
  set_key(text, assignment);
  return text.sections.at("optim").at("lr");
}

TEST(ParseRecipe, ReadsSectionsAndTypes) {
  const auto text =
      parse_recipe("[model]\nname = \"mlp\"\ntied = true\n[optim]\nlr = 1e-2\nbetas = [0, 0.5]\n[train]\nsteps = 7\n",
                   "a/mine.toml");
  EXPECT_EQ(text.name, "mine");
  EXPECT_EQ(text.sections.at("model").at("name"), Value(std::string("mlp")));
  EXPECT_EQ(text.sections.at("model").at("tied"), Value(true));
  EXPECT_EQ(text.sections.at("optim").at("lr"), Value(0.01));
  EXPECT_EQ(text.sections.at("optim").at("betas"), Value(std::vector<double>{0, 0.5}));
  EXPECT_EQ(text.sections.at("train").at("steps"), Value(int64_t{7}));
}

TEST(ParseRecipe, AnEmptyTextIsAllDefaults) {
  const Recipe recipe = recipe_of("");
  EXPECT_EQ(recipe.strategy.name, "all_reduce");
  EXPECT_EQ(recipe.train.steps, 200);
  EXPECT_FALSE(recipe.data.path.empty()) << "what an empty path stands for is written down";
}

TEST(ParseRecipe, NamesTheLineOfBrokenToml) {
  EXPECT_EQ(error_in("[model]\nname = \n").substr(0, 13), "mine.toml:2: ");
  EXPECT_EQ(error_in("[model]\n[model]\n").substr(0, 13), "mine.toml:2: ");
}

TEST(ParseRecipe, TakesAnyLetterInQuotesAndCommentsAndNowhereElse) {
  EXPECT_EQ(
      parse_recipe("# für später\n[data]\npath = \"ä/\\\"ö'#\" # ü\nsuffix = 'ß\\'\n", "a").sections["data"]["path"],
      Value(std::string("ä/\"ö'#")));
  EXPECT_EQ(error_in("[data]\nä = 1\n"),
            "mine.toml:2: a character that is not ASCII stands outside quotes and comments");
  EXPECT_EQ(error_in("[data]\npath = \"\"\"ä\"\"\"\n"),
            "mine.toml:2: a recipe has no text of several lines (three quotes)");
  EXPECT_EQ(error_in("[data]\nlength = 6p\"ä\"\n").substr(0, 12), "mine.toml:2:") << "no text begins in a number";
  EXPECT_EQ(value_of("optim.lr=ä/ö"), Value(std::string("ä/ö"))) << "on the command line, a word";
}

TEST(ParseRecipe, RefusesWhatARecipeCannotHold) {
  EXPECT_EQ(error_in("steps = 3"), "mine.toml: steps is outside any section");
  EXPECT_EQ(error_in("[modle]\n"), "mine.toml: unknown section [modle]; did you mean [model]?");
  EXPECT_EQ(error_in("[optim]\nlr = 07:32:00\n").substr(0, 9), "optim.lr:");
  EXPECT_EQ(error_in("[optim]\nbetas = [[1], [2]]\n"), "optim.betas: a list holds numbers only");
  EXPECT_EQ(error_in("[optim]\nbetas = [true, false]\n"), "optim.betas: a list holds numbers only");
  EXPECT_EQ(error_in("[compare.c02]\n"), "mine.toml: [compare.c02]: there is no strategy 'c02'; did you mean 'co2'?");
}

TEST(SetKey, TakesBareWordsNumbersListsAndStrings) {
  EXPECT_EQ(value_of("optim.lr=word"), Value(std::string("word")));
  EXPECT_EQ(value_of("optim.lr=100mbit/20ms"), Value(std::string("100mbit/20ms")));
  EXPECT_EQ(value_of("optim.lr=1/M"), Value(std::string("1/M")));
  EXPECT_EQ(value_of("optim.lr="), Value(std::string()));
  EXPECT_EQ(value_of("optim.lr=a=b"), Value(std::string("a=b")));
  EXPECT_EQ(value_of("optim.lr=a.b=c d"), Value(std::string("a.b=c d")));
  EXPECT_EQ(value_of("optim.lr=\"3\""), Value(std::string("3")));
  EXPECT_EQ(value_of("optim.lr='a\\b'"), Value(std::string("a\\b")));
  EXPECT_EQ(value_of("optim.lr=3"), Value(int64_t{3}));
  EXPECT_EQ(value_of("optim.lr=-3e-2"), Value(-0.03));
  EXPECT_EQ(value_of("optim.lr=inf"), Value(INFINITY));
  EXPECT_EQ(value_of("optim.lr=true"), Value(true));
  EXPECT_EQ(value_of("optim.lr=[1, 2.5]"), Value(std::vector<double>{1, 2.5}));
}

TEST(SetKey, DoesNotLetAValueBringOtherKeys) {
  RecipeText text;
  set_key(text, "optim.lr=1\neps = 2");
  EXPECT_EQ(text.sections.at("optim").size(), 1);
  EXPECT_EQ(text.sections.at("optim").at("lr"), Value(std::string("1\neps = 2")));
}

TEST(SetKey, WantsSectionKeyAndValue) {
  RecipeText text;
  for (const char* wrong : {"", "optim", "optim.lr", "lr=3", "=3", "optim=a.b"})
    EXPECT_EQ(error_of([&] { set_key(text, wrong); }), fmt::format("'{}' is not section.key=value", wrong));
  EXPECT_EQ(error_of([&] { set_key(text, "otpim.lr=3"); }),
            "command line: unknown section [otpim]; did you mean [optim]?");
}

TEST(SetKey, WinsOverTheFile) { EXPECT_EQ(recipe_of("[optim]\nlr = 0.5\n", {"optim.lr=0.25"}).optim.lr, 0.25); }

TEST(Length, IsOneOnly) {
  EXPECT_EQ(error_in("[train]\nsteps = 3\ntokens = 4\n"), "a run has one length, got train.steps and train.tokens");
  EXPECT_EQ(error_in("[train]\ntokens = 3\nseconds = 0.5\n"),
            "a run has one length, got train.tokens and train.seconds");
  EXPECT_EQ(error_in("[train]\nsteps = 3\ntokens = 0\nseconds = 0.0\n"), "no error");
}

TEST(Length, OnTheCommandLineReplacesTheOneInTheFile) {
  const Recipe seconds = recipe_of("[train]\nsteps = 3\n", {"train.seconds=2"});
  EXPECT_EQ(seconds.train.seconds, 2);
  EXPECT_EQ(seconds.planned_steps(), 0);
  EXPECT_EQ(recipe_of("[train]\nseconds = 3\n", {"train.tokens=5", "train.steps=7"}).planned_steps(), 7);
}

TEST(Length, OfZeroReplacesNone) {
  EXPECT_EQ(recipe_of("[train]\nsteps = 3\n", {"train.seconds=0"}).planned_steps(), 3);
  EXPECT_EQ(recipe_of("[train]\ntokens = 3\n", {"train.seconds=0.0"}).train.tokens, 3);
}

TEST(PlannedSteps, CoverTheTokensAskedFor) {
  const std::string shape = "[model]\ncontext = 16\n[workers]\nreplicas = 2\n[train]\nbatch = 4\n";  // 128 a step
  const auto steps = [&](int64_t tokens) {
    return recipe_of(shape + "tokens = " + std::to_string(tokens)).planned_steps();
  };
  EXPECT_EQ(steps(1), 1);
  EXPECT_EQ(steps(128), 1);
  EXPECT_EQ(steps(129), 2);
  EXPECT_EQ(steps(12'800), 100);
  EXPECT_EQ(steps(1'000'000'000'000'000'000), 7'812'500'000'000'000);
}

TEST(MakeRecipe, NamesTheKeyThatIsWrong) {
  EXPECT_EQ(error_in("[train]\nstep = 3\n"), "unknown key train.step; did you mean train.steps?");
  EXPECT_EQ(error_in("[strategy]\nname = \"c02\"\n"),
            "strategy.name must be one of all_reduce, local_sgd, slowmo, diloco, delayed_diloco, eager_diloco, cocod, "
            "co2, sparta, async_sparta, asyncmesh, loscar, drip, one_bit_adam, one_bit_lamb, zero_one_adam, got "
            "\"c02\"; did you mean \"co2\"?");
  EXPECT_EQ(error_in("[optim]\nlr = nan\n"), "optim.lr must be above 0 and at most 1000, got nan");
  EXPECT_EQ(error_in("[link]\nreplicas = \"20ms\"\n").substr(0, 36), "link.replicas: '20ms' is not a rate:");
  EXPECT_EQ(error_in("[strategy]\nname = \"local_sgd\"\nkeep = 0.5\n").substr(0, 25), "unknown key strategy.keep");
}

TEST(MakeRecipe, RefusesEveryValueOutOfItsRange) {
  const std::pair<const char*, const char*> cases[] = {
      {"link.replicas=100mb", "link.replicas: '100mb' is not a rate"},
      {"link.replicas=100", "link.replicas: '100' is not a rate"},
      {"link.replicas=100mbit/20mbit", "link.replicas: '20mbit' is not a time"},
      {"link.replicas=-1mbit", "link.replicas: '-1mbit' is not a rate"},
      {"link.replicas=nanmbit", "link.replicas: 'nanmbit' is not a rate"},
      {"link.replicas=true", "link.replicas must be"},
      {"train.steps=-5", "train.steps must be at least 1, got -5"},
      {"train.steps=many", "train.steps must be a whole number, got \"many\""},
      {"train.steps=99999999999999999999", "train.steps must be a whole number"},
      {"train.steps=2.5", "train.steps must be a whole number, got 2.5"},
      {"train.steps={a = 1}", "train.steps: wanted a number"},
      {"train.batch=1000001", "train.batch must be at least 1 and at most"},
      {"train.tokens=9000000000000000000", "train.tokens must be at least 0 and at most"},
      {"train.seconds=-1", "train.seconds must be at least 0"},
      {"train.seconds=inf", "train.seconds must be at least 0 and at most"},
      {"train.device=cuda", "train.device must be one of cpu"},
      {"optim.lr=0", "optim.lr must be above 0"},
      {"optim.lr=-nan", "optim.lr must be above 0"},
      {"optim.lr=inf", "optim.lr must be above 0 and at most 1000, got inf"},
      {"optim.betas=[0.9, nan]", "optim.betas must be at least 0 and below 1, got nan"},
      {"optim.betas=[0.9]", "optim.betas must be two numbers"},
      {"optim.betas=0.9", "optim.betas must be two numbers"},
      {"optim.bias_correction=1", "optim.bias_correction must be true or false"},
      {"strategy.keep=2/M", "strategy.keep must be a number or \"1/M\""},
      {"strategy.keep=nan", "strategy.keep must be at least 0 and at most 1, got nan"},
      {"strategy.momentum=1", "strategy.momentum must be at least 0 and below 1"},
      {"strategy.period=0", "strategy.period must be at least 1"},
      {"workers.replicas=0", "workers.replicas must be at least 1"},
      {"workers.stages=65", "workers.stages must be at least 1 and at most 64, got 65"},
      {"data.held_out=0.6", "data.held_out must be above 0 and at most 0.5"},
      {"model.size=nanno", "model.size must be one of"}};
  for (const auto& [key, about] : cases) {
    const std::string error = error_of([&] { recipe_of("", {"strategy.name=co2", key}); });
    EXPECT_TRUE(error.starts_with(about)) << key << ": " << error;
  }
}

TEST(MakeRecipe, MakesThePathAbsolute) {
  const Recipe recipe = recipe_of("", {"data.path=some/../text.txt"});
  EXPECT_EQ(recipe.data.path, (std::filesystem::current_path() / "text.txt").string());
}

TEST(MakeRecipe, ANameOfASizeGivesWayToNumbers) {
  const Recipe recipe = recipe_of("[model]\nsize = \"micro\"\nlayers = 9\n");
  EXPECT_EQ(recipe.model.layers, 9);
  EXPECT_EQ(recipe.model.width, 128);
}

TEST(MakeRecipeFor, GivesAKeyToThoseThatHaveIt) {
  const auto text = parse_recipe("[strategy]\nname = \"co2\"\nperiod = 9\nbucket = \"1kB\"\n", "mine.toml");
  const std::vector<std::string> all = {"all_reduce", "co2"};
  EXPECT_EQ(make_recipe_for(text, Compared::strategies, "all_reduce", all).strategy.all_reduce.bucket.count, 1000);
  EXPECT_EQ(make_recipe_for(text, Compared::strategies, "co2", all).strategy.periodic.period, 9);
  EXPECT_EQ(error_of([&] {
              make_recipe_for(text, Compared::strategies, "co2", {"co2", "slowmo"});
            }),
            "unknown key strategy.bucket: none of co2, slowmo has it");
}

TEST(MakeRecipeFor, LeavesOutKeysOfTheRecipesOwnStrategy) {
  const auto text = parse_recipe("[strategy]\nname = \"co2\"\nperiod = 9\n", "mine.toml");
  EXPECT_EQ(make_recipe_for(text, Compared::strategies, "one_bit_lamb", {"all_reduce", "one_bit_lamb"}).strategy.name,
            "one_bit_lamb");
}

TEST(MakeRecipeFor, LetsASectionOfItsOwnWin) {
  const auto text = parse_recipe(
      "[optim]\nlr = 0.5\n[train]\nsteps = 5\n[compare.co2]\noptim.lr = 0.25\nstrategy.period = 3\ntrain.seconds = 2\n",
      "mine.toml");
  const Recipe co2 = make_recipe_for(text, Compared::strategies, "co2", {"co2", "slowmo"}),
               slowmo = make_recipe_for(text, Compared::strategies, "slowmo", {"co2", "slowmo"});
  EXPECT_EQ(co2.optim.lr, 0.25);
  EXPECT_EQ(co2.strategy.periodic.period, 3);
  EXPECT_EQ(co2.planned_steps(), 0);
  EXPECT_EQ(slowmo.optim.lr, 0.5);
  EXPECT_EQ(slowmo.planned_steps(), 5);
}

TEST(MakeRecipeFor, ChecksTheSectionOfTheStrategy) {
  const auto error = [](const std::string& toml) {
    return error_of([&] { make_recipe_for(parse_recipe(toml, "mine.toml"), Compared::strategies, "co2", {"co2"}); });
  };
  EXPECT_EQ(error("[compare.co2]\noptim.lrr = 1\n"), "unknown key optim.lrr; did you mean optim.lr?");
  EXPECT_EQ(error("[compare.co2]\nstrategy.name = \"slowmo\"\n").substr(0, 46),
            "mine.toml: compare.co2.strategy.name cannot be");
  EXPECT_EQ(error("[compare.co2]\ntrain.steps = 1\ntrain.tokens = 1\n"),
            "a run has one length, got train.steps and train.tokens");
  EXPECT_EQ(error("[strategy]\nname = \"c02\"\n").substr(0, 26), "strategy.name must be one ");
}

TEST(ToToml, GivesEveryStrategyBack) {
  for (const auto& name : dp::strategy_names()) {
    const Recipe recipe = recipe_of("", {"strategy.name=" + name});
    const std::string toml = to_toml(recipe);
    EXPECT_EQ(first_difference(recipe, recipe_of(toml)), std::nullopt) << name;
    EXPECT_EQ(to_toml(recipe_of(toml)), toml) << name;
  }
}

TEST(ToToml, GivesAnyOptionsBackToTheBit) {
  std::mt19937 dice(7);
  const auto pick = [&](const std::vector<std::string>& words) { return words[dice() % words.size()]; };
  const auto real = [&](double low, double high) {
    return fmt::format("{}", low + (high - low) * std::uniform_real_distribution<>(1e-6, 1)(dice));
  };
  for (int i = 0; i < 300; ++i) {
    const std::string name = pick(dp::strategy_names());
    std::vector<std::string> keys = {"strategy.name=" + name,
                                     "optim.lr=" + real(0, 1),
                                     "optim.eps=" + real(0, 1e-7),
                                     fmt::format("optim.betas=[{}, {}]", real(0, 1), real(0, 1)),
                                     "optim.clip=" + pick({"inf", real(0, 9)}),
                                     "optim.schedule=" + pick({"cosine", "constant"}),
                                     "optim.weight_decay=" + real(0, 1),
                                     "model.size=" + pick(models::size_names()),
                                     "model.tied=" + pick({"true", "false"}),
                                     "data.path=" + pick({"a b", "\"quote\\\"\\\\ \\u00e4 \\u007f\"", "/x/y.txt"}),
                                     "data.held_out=" + real(0, 0.5),
                                     fmt::format("link.replicas={}mbit/{}ms", real(0.01, 1000), real(0.001, 500)),
                                     "train.seed=" + std::to_string(dice()),
                                     pick({"train.steps=5", "train.tokens=77", "train.seconds=" + real(0, 9)})};
    keys.push_back("strategy.codec=" + pick({"none", "one_bit", "int4", "topk:0.01"}));
    if (dp::family_of(name) == dp::Family::one_bit) {
      keys.back() = "strategy.freeze=" + pick({"auto", "12"});
      keys.push_back("strategy.warmup_bits=" + pick({"32", "8", "4"}));
    }
    if (dp::family_of(name) == dp::Family::slices) {
      if (name != "drip")
        keys.back() = "strategy.codec=" + pick({"none", "int8", "bf16"});  // of the weights themselves
      if (name == "asyncmesh") keys.push_back("strategy.redraw=false");    // which a codec needs
      keys.push_back("strategy.slices=" + pick({"17", "\"20, at 12.5% 11\"", "\"20, at 7 11, at 1000000007 12\""}));
      keys.push_back("strategy.delay=" + pick({"auto", "0", "3"}));
      keys.push_back("strategy.block=" + pick({"1024", "4096"}));
    }
    if (dp::family_of(name) == dp::Family::periodic)
      keys.push_back("strategy.period=" + std::to_string(1 + dice() % 50));
    if (name == "co2") {
      keys.push_back("strategy.penalty=" + pick({"none", "gap", "floor"}));
      keys.push_back("strategy.clip=" + pick({"inf", real(0, 9)}));
      keys.push_back("strategy.keep=" + pick({"1/M", real(0, 1)}));
      keys.push_back("strategy.momentum=" + real(0, 0.999));
    }
    const Recipe recipe = recipe_of("", keys), again = recipe_of(to_toml(recipe));
    ASSERT_EQ(first_difference(recipe, again), std::nullopt) << fmt::format("{}", to_toml(recipe));
    ASSERT_EQ(to_toml(again), to_toml(recipe));
    ASSERT_EQ(again.optim.lr, recipe.optim.lr);
    ASSERT_EQ(again.data.path, recipe.data.path);
  }
}

TEST(FirstDifference, IsNothingBetweenEquals) {
  EXPECT_EQ(first_difference(recipe_of(""), recipe_of("")), std::nullopt);
}

TEST(FirstDifference, NamesTheKeyAndBothValues) {
  const Recipe there = recipe_of("", {"strategy.name=co2"});
  const auto difference = [&](const std::string& key) {
    return first_difference(there, recipe_of("", {"strategy.name=co2", key})).value_or("none");
  };
  EXPECT_EQ(difference("optim.lr=0.5"), "optim.lr is 0.001 there and 0.5 here");
  EXPECT_EQ(difference("strategy.name=slowmo"), "strategy.name is \"co2\" there and \"slowmo\" here");
  EXPECT_EQ(difference("strategy.delay=0"), "strategy.delay is 1 there and 0 here");
  EXPECT_EQ(difference("train.tokens=9"), "train.tokens is 0 there and 9 here");
  EXPECT_EQ(difference("link.replicas=1gbit"), "link.replicas is \"none\" there and \"1gbit\" here");
  EXPECT_EQ(difference("data.source=synthetic"), "data.source is \"text\" there and \"synthetic\" here");
}

TEST(ReadRecipe, NamesAFileThatIsNone) {
  EXPECT_EQ(error_of([] { read_recipe("nowhere.toml"); }), "there is no recipe nowhere.toml");
  EXPECT_EQ(error_of([] { read_recipe("/"); }), "/ cannot be read as a recipe: not a plain file");
  EXPECT_EQ(error_of([] { read_recipe("/dev/zero"); }), "/dev/zero cannot be read as a recipe: not a plain file");
}

TEST(ReadRecipe, ReadsAFile) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("thinwire_recipe_{}.toml", ::getpid());
  std::ofstream(path) << "[train]\nsteps = 3\n";
  const auto text = read_recipe(path);
  std::filesystem::remove(path);
  EXPECT_EQ(text.name, path.stem());
  EXPECT_EQ(make_recipe(text).planned_steps(), 3);
}

TEST(SetKeys, AnotherStrategyLeavesTheKeysOfTheOneBeforeBehind) {
  const std::string toml = "[strategy]\nname = \"co2\"\nperiod = 8\nclip = 2\n";
  EXPECT_EQ(recipe_of(toml, {"strategy.name=all_reduce"}).strategy.name, "all_reduce");
  EXPECT_EQ(recipe_of(toml, {"strategy.name=local_sgd"}).strategy.periodic.period, 8) << "what both have stays";
}

TEST(SetKeys, AKeyOfTheCommandLineIsNeverDroppedInSilence) {
  const std::string toml = "[strategy]\nname = \"co2\"\nperiod = 8\n";
  for (const auto& keys : {std::vector<std::string>{"strategy.period=4", "strategy.name=all_reduce"},
                           std::vector<std::string>{"strategy.name=all_reduce", "strategy.period=4"}})
    EXPECT_EQ(error_of([&] { recipe_of(toml, keys); }).substr(0, 27), "unknown key strategy.period");
  EXPECT_EQ(error_of([&] { recipe_of("[strategy]\nperid = 8\n", {"strategy.name=co2"}); }),
            "unknown key strategy.perid; did you mean strategy.period?");
}

TEST(MakeRecipe, APresetLosesWhatAnOverridingKeyHasNoUseFor) {
  const auto waiting = recipe_of("[strategy]\nname = \"cocod\"\ndelay = 0\n").strategy.periodic;
  EXPECT_EQ(waiting.keep.share, 0);
  const auto plain = recipe_of("[strategy]\nname = \"co2\"\nouter = \"average\"\n").strategy.periodic;
  EXPECT_EQ(plain.momentum, 0);
  EXPECT_EQ(plain.penalty, "none");
  EXPECT_TRUE(std::isinf(plain.clip));
}

TEST(Recipe, APresetSetsWhatTheRecipeDoesNotSay) {
  const Recipe steady =
      make_recipe(parse_recipe("[optim]\nname = \"muon\"\n[pipeline]\npreset = \"steady\"\n", "mine.toml"));
  EXPECT_EQ(steady.pipeline.predict, 1);
  EXPECT_EQ(steady.pipeline.rate_power, 0.5);
  EXPECT_EQ(steady.pipeline.sync_steps.share, 0.1);
  EXPECT_EQ(steady.optim.rest, "nadamw");
  EXPECT_EQ(steady.optim.betas, (std::array{0.99, 0.999}));
  const Recipe given = make_recipe(parse_recipe(
      "[optim]\nname = \"muon\"\nrest = \"adamw\"\n"
      "[pipeline]\npreset = \"steady\"\nsync_steps = 40\nrate_power = 0\nsync_schedule = \"gpipe\"\nmicrobatches = 2\n",
      "mine.toml"));
  EXPECT_EQ(given.pipeline.predict, 1);
  EXPECT_EQ(given.pipeline.rate_power, 0);
  EXPECT_EQ(given.pipeline.sync_steps.of(0), 40);
  EXPECT_EQ(given.pipeline.microbatches, 2);
  EXPECT_EQ(given.optim.rest, "adamw");
  EXPECT_EQ(given.optim.betas, (std::array{0.9, 0.99}));
  for (const Recipe& recipe : {steady, given})
    EXPECT_FALSE(first_difference(make_recipe(parse_recipe(to_toml(recipe), "again.toml")), recipe));
}

TEST(Recipe, OfAScheduleOfAComparisonHasTheKeysThatItHas) {
  const auto text = parse_recipe(
      "[optim]\nname = \"muon\"\n[pipeline]\nhop = 2\nmicrobatches = 2\nsync_steps = 7\n"
      "[compare.gpipe]\noptim.lr = 0.5\n",
      "mine.toml");
  const auto all = names_of(Compared::schedules);
  const auto of = [&](const char* name) { return make_recipe_for(text, Compared::schedules, name, all); };
  EXPECT_EQ(of("gpipe").pipeline.schedule, "gpipe");
  EXPECT_EQ(of("gpipe").pipeline.microbatches, 2);
  EXPECT_EQ(of("gpipe").optim.lr, 0.5);
  EXPECT_EQ(of("async_1f1b").pipeline.hop.count, 2);
  EXPECT_EQ(of("async_1f1b").pipeline.predict, 0);
  EXPECT_EQ(of("steady").pipeline.schedule, "async_1f1b");
  EXPECT_EQ(of("steady").pipeline.predict, 1);
  EXPECT_EQ(of("steady").pipeline.sync_steps.of(0), 7);
  EXPECT_EQ(of("steady").optim.rest, "nadamw");
  const auto wrong = parse_recipe("[pipeline]\nhopp = 2\n", "mine.toml");
  EXPECT_EQ(error_of([&] {
              make_recipe_for(wrong, Compared::schedules, "gpipe", {"gpipe", "1f1b"});
            }),
            "unknown key pipeline.hopp: none of gpipe, 1f1b has it");
}

}  // namespace
}  // namespace thinwire::train
