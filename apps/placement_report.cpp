#include "placement_report.h"

#include <lockstep/gpu.h>
#include <lockstep/placement.h>

#include <cstdio>
#include <sstream>

namespace lockstep::apps {
namespace {

std::string mebibytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

/// ", physical 3" for a GPU that CUDA_VISIBLE_DEVICES numbers anew.
std::string physical(const std::string& device, const Environment& environment) {
  if (device.rfind("gpu:", 0) != 0) return "";
  return ", physical " +
         gpu::physical_name(std::stoi(device.substr(4)), environment.cuda_visible_devices);
}

}  // namespace

std::string placement_report(const std::map<std::ptrdiff_t, TowerReport>& towers,
                             const Environment& environment) {
  std::ostringstream out;
  out << "placement\n";
  for (const auto& [number, tower] : towers) {
    out << "  " << tower.device << "  tower " << number << physical(tower.device, environment)
        << ", " << tower.shards << (tower.shards == 1 ? " shard" : " shards");
    if (tower.peak_bytes > 0) out << ", at most " << mebibytes(tower.peak_bytes);
    out << "\n";
  }
  const auto all = fallbacks();
  if (all.empty()) out << "  every operator ran on its device\n";
  for (const Fallback& fallback : all)
    out << "  " << fallback.op << " for " << fallback.device << " ran on the CPU " << fallback.count
        << (fallback.count == 1 ? " time" : " times")
        << (fallback.module.empty() ? "" : ", near '" + fallback.module + "'") << ": "
        << fallback.reason << "\n";
  return out.str();
}

}  // namespace lockstep::apps
