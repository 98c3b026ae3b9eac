#include <lockstep/machines.h>

namespace lockstep {
namespace {

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

std::string trouble_message(const Trouble& trouble) {
  std::string text;
  if (!trouble.lost.empty())
    text = (trouble.lost.size() == 1 ? "machine " : "machines ") + listed(trouble.lost) +
           (trouble.lost.size() == 1 ? " is gone" : " are gone");
  if (!trouble.failed.empty())
    text += (text.empty() ? "machine " : ", and machine ") + trouble.failed + " failed";
  if (text.empty() || trouble.why.empty()) return text + trouble.why;
  return text + ": " + trouble.why;
}

}  // namespace

MachinesError::MachinesError(Trouble what)
    : std::runtime_error(trouble_message(what)), trouble(std::move(what)) {}

}  // namespace lockstep
