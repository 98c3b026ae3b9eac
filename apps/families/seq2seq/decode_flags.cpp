#include "families/seq2seq/decode_flags.h"

#include "flag_checks.h"

namespace lockstep::apps {

void add_decode_flags(CLI::App& command, DecodeFlags& flags) {
  command.add_option("run", flags.path, "a run, its folder of checkpoints, or one checkpoint")
      ->required();
  CLI::Option* beam = command
                          .add_option("--beam", flags.beam,
                                      "width of the beam search; 1: greedy; 0: as the recipe says")
                          ->check(CLI::Range(0, 1024));
  command
      .add_option("--max-length", flags.max_length, "most tokens of a text; 0: as the recipe says")
      ->check(CLI::Range(0, 65536));
  CLI::Option* temperature =
      command
          .add_option("--temperature", flags.temperature,
                      "above 0: texts are drawn at random, without a beam; the higher, the more "
                      "unlikely ones")
          ->check(not_negative())
          ->excludes(beam);
  command
      .add_option("--top-k", flags.top_k,
                  "with --temperature: only of so many most likely tokens; 0: of all")
      ->check(whole_number(0))
      ->needs(temperature);
  command.add_option("--seed", flags.seed, "with --temperature: of the draws")
      ->check(whole_number(0))
      ->needs(temperature);
  command
      .add_option("--weights", flags.weights,
                  "live, averaged, or auto: averaged if the checkpoint has them")
      ->check(CLI::IsMember({"auto", "live", "averaged"}));
  command.add_flag("--newest", flags.newest,
                   "of a run, the newest checkpoint; else the best by the recipe's metric");
}

}  // namespace lockstep::apps
