// Stands in for NVIDIA's driver, libcuda.so.1: for the CUDA version in FAKE_DRIVER, and without any
// GPU.

#include <cstdlib>
#include <string_view>

namespace {

constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

int no_device() { return kNoDevice; }

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  const char* text = std::getenv("FAKE_DRIVER");
  *version = text == nullptr ? 0 : std::atoi(text);
  return 0;
}

int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long, int* found) {
  *function = std::string_view(name) == "cuDriverGetVersion"
                  ? reinterpret_cast<void*>(&cuDriverGetVersion)
                  : reinterpret_cast<void*>(&no_device);
  if (std::string_view(name) == "cuGetProcAddress")
    *function = reinterpret_cast<void*>(&cuGetProcAddress_v2);
  if (found != nullptr) *found = 0;
  return 0;
}

int cuGetProcAddress(const char* name, void** function, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

int cuInit(unsigned) { return kNoDevice; }

}  // extern "C"
