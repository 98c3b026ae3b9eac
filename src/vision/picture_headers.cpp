#include "vision/picture_headers.h"

#include <lockstep/error.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <thread>

#include "base/file.h"

namespace lockstep::vision {
namespace {

constexpr std::size_t kHeaderBytes = std::size_t{256} << 10U;
constexpr std::uint64_t kMostPictureBytes = std::uint64_t{1} << 30U;
constexpr std::chrono::milliseconds kBetweenProgress{200};

ImageSize size_of_picture(const std::string& path) {
  std::vector<std::uint8_t> bytes(kHeaderBytes);
  base::File file(path, O_RDONLY);
  const std::size_t got = file.read(std::as_writable_bytes(std::span(bytes)));
  bytes.resize(got);
  try {
    return image_size(path, bytes);
  } catch (const CorruptFile&) {
    if (got < kHeaderBytes) throw;
  }
  return image_size(path, base::read_bytes(path, kMostPictureBytes));
}

std::string without_path(std::string message, const std::string& path) {
  if (message.starts_with(path + ": ")) message.erase(0, path.size() + 2);
  return message;
}

PictureHeader header_of_picture(const std::string& path) {
  try {
    return {size_of_picture(path), {}};
  } catch (const IoError& error) {
    return {{}, without_path(error.what(), path)};
  } catch (const CorruptFile& error) {
    return {{}, without_path(error.what(), path)};
  }
}

/// The threads that read, and what they share.
class HeaderReaders {
 public:
  explicit HeaderReaders(const std::vector<std::string>& paths)
      : paths_(paths), headers_(paths.size()) {}

  std::vector<PictureHeader> read(int workers, const std::function<void(std::int64_t)>& progress) {
    const auto most = static_cast<int>(std::min<std::size_t>(paths_.size(), 64));
    std::vector<std::jthread> threads;
    for (int i = 0; i < std::clamp(workers, 1, std::max(1, most)); ++i)
      threads.emplace_back([this](const std::stop_token& stop) { work(stop); });
    watch(progress);
    threads.clear();  // joins them
    if (error_) std::rethrow_exception(error_);
    if (progress) progress(static_cast<std::int64_t>(paths_.size()));
    return std::move(headers_);
  }

 private:
  void work(const std::stop_token& stop) {
    try {
      for (std::size_t i = take(); i < paths_.size() && !stop.stop_requested(); i = take()) {
        headers_[i] = header_of_picture(paths_[i]);
        finish();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  std::size_t take() {
    const std::lock_guard lock(mutex_);
    return next_++;
  }

  void finish() {
    const std::lock_guard lock(mutex_);
    if (++done_ == paths_.size()) changed_.notify_all();
  }

  void watch(const std::function<void(std::int64_t)>& progress) {
    std::unique_lock lock(mutex_);
    const auto ended = [this] { return done_ == paths_.size() || error_; };
    while (!changed_.wait_for(lock, kBetweenProgress, ended)) {
      const auto done = static_cast<std::int64_t>(done_);
      lock.unlock();
      if (progress) progress(done);
      lock.lock();
    }
  }

  const std::vector<std::string>& paths_;
  std::vector<PictureHeader> headers_;  // each is written by the thread that took its number
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::size_t next_ = 0, done_ = 0;
  std::exception_ptr error_;
};

}  // namespace

std::vector<PictureHeader> read_headers(const std::vector<std::string>& paths, int workers,
                                        const std::function<void(std::int64_t)>& progress) {
  return HeaderReaders(paths).read(workers, progress);
}

}  // namespace lockstep::vision
