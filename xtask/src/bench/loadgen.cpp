/*
 * What MLPerf LoadGen costs a query, with a system under test that does nothing.
 *
 * Linked with LoadGen's own C++ sources. Arguments: seconds for each measurement, a folder for LoadGen's logs, and the
 * rates of the server scenario. Prints one line of JSON, times in nanoseconds.
 */
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "loadgen.h"
#include "query_sample_library.h"
#include "system_under_test.h"
#include "test_settings.h"

namespace {

/* Completes each query on the thread that issues it. */
class Nothing : public mlperf::SystemUnderTest {
 public:
  const std::string& Name() override { return name_; }
  void IssueQuery(const std::vector<mlperf::QuerySample>& samples) override {
    for (const auto& sample : samples) {
      mlperf::QuerySampleResponse response(sample.id, 0, 0);
      mlperf::QuerySamplesComplete(&response, 1);
    }
  }
  void FlushQueries() override {}

 private:
  std::string name_ = "nothing";
};

class NoSamples : public mlperf::QuerySampleLibrary {
 public:
  const std::string& Name() override { return name_; }
  size_t TotalSampleCount() override { return 1024; }
  size_t PerformanceSampleCount() override { return 1024; }
  void LoadSamplesToRam(const std::vector<mlperf::QuerySampleIndex>&) override {}
  void UnloadSamplesFromRam(const std::vector<mlperf::QuerySampleIndex>&) override {}

 private:
  std::string name_ = "no samples";
};

/* The summary that LoadGen writes: lines of a name, a colon and a value. */
class Summary {
 public:
  explicit Summary(const std::string& path) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines_.push_back(line);
  }

  /* The number of this name as JSON. */
  std::string Number(const std::string& name) const {
    for (const auto& line : lines_) {
      const auto start = line.find_first_not_of(' ');
      if (start == std::string::npos || line.compare(start, name.size(), name) != 0) continue;
      const auto colon = line.find_first_not_of(' ', start + name.size());
      if (colon == std::string::npos || line[colon] != ':') continue;
      const auto value = line.find_first_not_of(' ', colon + 1);
      if (value != std::string::npos) return line.substr(value);
    }
    return "null";
  }

 private:
  std::vector<std::string> lines_;
};

/* LoadGen issues from a thread of its own and keeps it for itself, so its seeds are all that it needs. */
Summary Measure(mlperf::TestScenario scenario, double seconds, const std::string& folder, double rate) {
  mlperf::TestSettings settings;
  settings.scenario = scenario;
  settings.mode = mlperf::TestMode::PerformanceOnly;
  settings.min_duration_ms = settings.max_duration_ms = static_cast<uint64_t>(1000 * seconds);
  settings.min_query_count = 1;
  settings.qsl_rng_seed = 1;
  settings.sample_index_rng_seed = 2;
  settings.schedule_rng_seed = 3;
  settings.single_stream_expected_latency_ns = 500;
  settings.server_target_qps = rate;
  settings.server_target_latency_ns = 10000000;
  settings.server_coalesce_queries = false;

  mlperf::LogSettings log;
  log.enable_trace = false;
  log.log_output.outdir = folder;
  Nothing nothing;
  NoSamples samples;
  mlperf::StartTest(&nothing, &samples, settings, log);
  return Summary(folder + "/mlperf_log_summary.txt");
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::cerr << "usage: loadgen SECONDS FOLDER [RATE...]\n";
    return 2;
  }
  const double seconds = std::atof(arguments[1]);
  const std::string folder = arguments[2];
  const auto single = Measure(mlperf::TestScenario::SingleStream, seconds, folder, 1);
  std::cout << "{\"single_stream_latency_ns\": " << single.Number("50.00 percentile latency (ns)")
            << ", \"single_stream_queries_per_second\": " << single.Number("QPS w/ loadgen overhead")
            << ", \"server\": [";
  for (int index = 3; index < count; ++index) {
    const auto server =
        Measure(mlperf::TestScenario::Server, seconds, folder, std::atof(arguments[index]));
    std::cout << (index > 3 ? ", " : "") << "{\"asked\": " << arguments[index]
              << ", \"offered\": " << server.Number("Scheduled samples per second")
              << ", \"achieved\": " << server.Number("Completed samples per second")
              << ", \"p50_ns\": " << server.Number("50.00 percentile latency (ns)")
              << ", \"p99_ns\": " << server.Number("99.00 percentile latency (ns)")
              << ", \"maximum_ns\": " << server.Number("Max latency (ns)") << "}";
  }
  std::cout << "]}\n";
}
