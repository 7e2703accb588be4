#include "harness/shared_runs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace stockade::bench {
namespace {

using Figures = std::pair<double, double>;

TEST(SharedRunsTest, TwoRows_ReadTheRepetitionsOfTheFirst) {
  auto order = std::make_shared<std::string>();
  int prepared = 0;
  const auto runs = SharedRuns<Figures>::Of([&](const Scale&) -> SharedRuns<Figures>::Sides {
    ++prepared;
    return {[=] { return order->push_back('A'), Figures(1, 2); },
            [=] { return order->push_back('B'), Figures(4, 16); }};
  });
  Suite suite;
  runs->AddRow(suite, "first", "ns", "other", [](const Figures& figures) { return figures.first; });
  runs->AddRow(suite, "second", "ns", "other", [](const Figures& figures) { return figures.second; });
  ASSERT_EQ(suite.comparisons().size(), 2);
  EXPECT_EQ(prepared, 0);
  const Row first = RunComparison(suite.comparisons()[0], Scale{});
  const std::string after_first = *order;
  const Row second = RunComparison(suite.comparisons()[1], Scale{});
  EXPECT_EQ(prepared, 1);
  EXPECT_EQ(*order, after_first);
  ASSERT_EQ(order->size(), 2u * (1 + kRepetitions));
  for (size_t i = 0; i < order->size(); ++i) EXPECT_EQ((*order)[i], i % 2 == 0 ? 'A' : 'B');
  EXPECT_EQ(first.value, 1);
  EXPECT_EQ(first.peer_value, 4);
  EXPECT_EQ(second.value, 2);
  EXPECT_EQ(second.peer_value, 16);
}

TEST(SharedRunsTest, WhatSidesWorkOn_IsGoneAfterTheFirstRow) {
  std::weak_ptr<int> world;
  const auto runs = SharedRuns<double>::Of([&](const Scale&) -> SharedRuns<double>::Sides {
    const auto made = std::make_shared<int>(3);
    world = made;
    return {[made] { return *made; }, [made] { return *made; }};
  });
  Suite suite;
  runs->AddRow(suite, {.name = "first", .unit = "op/s", .peer = "other", .better = Better::kHigher},
               [](double figure) { return figure; });
  runs->AddRow(suite, "second", "ns", "other", [](double figure) { return 2 * figure; });
  EXPECT_EQ(RunComparison(suite.comparisons()[0], Scale{}).value, 3);
  EXPECT_TRUE(world.expired());
  EXPECT_EQ(RunComparison(suite.comparisons()[1], Scale{}).value, 6);
}

}  // namespace
}  // namespace stockade::bench
