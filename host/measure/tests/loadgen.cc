// Prints the verdicts of LoadGen's own code on made-up latencies, as JSON. Built by loadgen.py.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "early_stopping.h"
#include "results.h"
#include "test_settings.h"
#include "test_settings_internal.h"

using namespace mlperf;
using namespace mlperf::loadgen;

namespace {

// Queries over this are over the limit.
constexpr int64_t kLimit = 100'000'000;
constexpr double kMinimum = 600.0;

bool first = true;

void Judge(TestScenario scenario, const char* name, int64_t queries, int64_t over, double lasted,
           int64_t examples) {
  TestSettings requested;
  requested.scenario = scenario;
  requested.mode = TestMode::PerformanceOnly;
  // As mlperf.conf has it.
  requested.min_duration_ms = 600000;
  if (scenario == TestScenario::MultiStream) {
    requested.min_query_count = 662;
    requested.multi_stream_samples_per_query = 1;
  }
  if (scenario == TestScenario::Offline) {
    requested.min_query_count = 24576;
    requested.offline_expected_qps = 1;
  }
  requested.server_target_latency_ns = kLimit;
  TestSettingsInternal settings(requested, 1024, 1024);

  PerformanceResult result;
  result.queries_issued = queries;
  // The rank of each latency is the latency, so that an estimate tells its rank.
  const int64_t count = scenario == TestScenario::Offline ? examples : queries;
  for (int64_t rank = 1; rank <= count; ++rank) {
    result.sample_latencies.push_back(rank > count - over ? kLimit + rank : rank);
  }
  result.query_latencies = result.sample_latencies;
  result.max_latency = lasted;
  result.final_query_scheduled_time = lasted;
  result.final_query_issued_time = lasted;
  result.final_query_all_samples_done_time = lasted + 1;

  PerformanceSummary summary{"", settings, result};
  std::string ignored;
  const bool stops = summary.EarlyStopping(&ignored, summary.pr.queries_issued,
                                           &summary.pr.sample_latencies,
                                           &summary.pr.query_latencies, settings.target_latency);
  const bool valid = summary.MinDurationMet(&ignored) && summary.MinQueriesMet() &&
                     summary.MinSamplesMet() && summary.PerfConstraintsMet(&ignored) && stops;
  const int64_t estimate = scenario == TestScenario::SingleStream
                               ? summary.early_stopping_latency_ss
                               : summary.early_stopping_latency_ms;
  std::cout << (first ? "" : ",\n") << R"({"scenario": ")" << name << R"(", "queries": )" << queries
            << R"(, "over": )" << over << R"(, "lasted": )" << lasted << R"(, "examples": )"
            << count << R"(, "estimate": )" << estimate << R"(, "valid": )"
            << (valid ? "true" : "false") << "}";
  first = false;
}

}  // namespace

int main() {
  std::cout << "[\n";
  for (int64_t queries : {1, 63, 64, 65, 99, 100, 101, 500, 1000, 5000, 24575, 24576}) {
    Judge(TestScenario::SingleStream, "single-stream", queries, 0, kMinimum, 0);
  }
  for (int64_t queries : {100, 661, 662, 663, 1000, 5000, 24576}) {
    Judge(TestScenario::MultiStream, "multi-stream", queries, 0, kMinimum, 0);
  }
  for (double lasted : {599.999, 600.001}) {
    Judge(TestScenario::SingleStream, "single-stream", 1000, 0, lasted, 0);
    Judge(TestScenario::MultiStream, "multi-stream", 1000, 0, lasted, 0);
    Judge(TestScenario::Server, "server", 1000, 0, lasted, 0);
    Judge(TestScenario::Offline, "offline", 1, 0, lasted, 24576);
  }
  Judge(TestScenario::Offline, "offline", 1, 0, 700, 24575);
  Judge(TestScenario::Offline, "offline", 1, 0, 3.125, 128);
  MinPassingQueriesFinder find;
  for (int64_t queries : {50, 99, 100, 458, 459, 460, 661, 662, 1000, 5000, 24576, 100000, 270335, 270336, 500000}) {
    // Around the most that are allowed over the limit, around a hundredth, and far from both.
    int64_t most = 0;
    while (find(most + 1, 0.99, 0.0, 0.99) + most + 1 <= queries) {
      most += 1;
    }
    std::vector<int64_t> overs = {0, 1, most - 1, most, most + 1, queries / 100 - 1, queries / 100,
                                  queries / 100 + 1, queries / 10};
    std::sort(overs.begin(), overs.end());
    overs.erase(std::unique(overs.begin(), overs.end()), overs.end());
    for (int64_t over : overs) {
      if (over >= 0) {
        Judge(TestScenario::Server, "server", queries, over, kMinimum, 0);
      }
    }
  }
  std::cout << "\n]\n";
}
