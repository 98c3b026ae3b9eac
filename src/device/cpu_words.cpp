#include <lockstep/device.h>

#include <fstream>
#include <sstream>

namespace lockstep {

std::string cpu_words() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, words;
  while (std::getline(info, line) && !line.empty()) {  // of the first core
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(std::min(colon + 2, line.size()));
    if (line.starts_with("vendor_id")) words = value;
    if (!line.starts_with("flags")) continue;
    std::istringstream flags(value);
    for (std::string flag; flags >> flag;)
      if (flag == "avx2" || flag == "fma" || flag.starts_with("avx512") ||
          flag.starts_with("amx") || flag == "avx_vnni")
        words += ' ' + flag;
  }
  return words.empty() ? "unknown" : words;
}

}  // namespace lockstep
