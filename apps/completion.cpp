#include "completion.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include "recipe/family.h"
#include "recipe/recipe.h"

namespace lockstep::apps {
namespace {

using Words = std::vector<std::string>;

struct Flag {
  Words names;  ///< with their dashes
  std::string about;
  bool takes_value = false;
  bool takes_field = false;
  Words values;  ///< if there are only some
};

struct Command {
  std::string name;
  std::string about;
  std::vector<Flag> flags;
  Words words;        ///< what may stand there without a flag
  std::string files;  ///< and which files may, as a pattern; empty: none
};

/// A field of a recipe and its values, if there are only some.
using FieldValues = std::vector<std::pair<std::string, Words>>;

std::string joined(const Words& words, const std::string& between = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

/// The beginning of a help text that can stand alone, without what a shell would take for syntax.
std::string brief(const std::string& help) {
  std::string text = help.substr(0, help.find_first_of(".;:("));
  std::erase_if(text, [](char letter) {
    return std::string("'\"\\`$[]{}<>").find(letter) != std::string::npos;
  });
  return text;
}

/// "a" and "b" of CLI11's "TEXT:{a,b}".
Words values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  Words words;
  if (begin == std::string::npos) return words;
  std::istringstream list(type.substr(begin + 1, type.find('}') - begin - 1));
  for (std::string word; std::getline(list, word, ',');) words.push_back(word);
  return words;
}

Words recipe_names() {
  Words names;
  for (const BuiltIn& recipe : built_in_recipes()) names.push_back(recipe.name);
  return names;
}

Command command_of(const CLI::App& app) {
  Command command{app.get_name(), brief(app.get_description()), {}, {}, ""};
  for (const CLI::Option* option : app.get_options()) {
    if (option->nonpositional()) {
      Flag flag;
      for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
      flag.about = brief(option->get_description());
      flag.takes_value = option->get_items_expected_max() > 0;
      flag.takes_field = option->check_lname("set");
      flag.values = values_of(*option);
      command.flags.push_back(flag);
    } else if (CLI::detail::to_lower(option->get_name(true)) == "recipe") {
      command.words = recipe_names();
      command.files = "*.toml";
    } else {
      command.words = values_of(*option);
      command.files = command.words.empty() ? "*" : "";
    }
  }
  return command;
}

std::vector<Command> commands_of(const CLI::App& app) {
  std::vector<Command> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(command_of(*command));
  return commands;
}

/// The fields of all families; of those that several have, the values of all.
FieldValues field_values() {
  FieldValues result;
  for (const Family& family : families()) {
    Recipe recipe(family.name);
    for (const Section& section : sections(recipe))
      for (const Field& field : section.fields) {
        auto known = std::ranges::find(result, field.name, &FieldValues::value_type::first);
        if (known == result.end()) known = result.insert(known, {field.name, {}});
        Words values;
        if (const auto* choice = std::get_if<Choice>(&field.target)) values = choice->words;
        if (std::holds_alternative<bool*>(field.target)) values = {"true", "false"};
        for (const std::string& value : values)
          if (std::ranges::count(known->second, value) == 0) known->second.push_back(value);
      }
  }
  return result;
}

Words flag_names(const Command& command) {
  Words names;
  for (const Flag& flag : command.flags)
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  return names;
}

Words fields_with_equals() {
  Words words;
  for (const auto& [name, values] : field_values()) words.push_back(name + "=");
  return words;
}

/// Lines "    pattern) action ;;" for those fields that have only some values.
std::string field_cases(const std::string& before, const std::string& after) {
  std::string cases;
  for (const auto& [name, values] : field_values())
    if (!values.empty()) cases += "    " + name + ") " + before + joined(values) + after + " ;;\n";
  return cases;
}

/// Lines "    command:--flag) action ;;" for the values of flags.
std::string flag_cases(const std::vector<Command>& commands, const std::string& before,
                       const std::string& after, const std::string& files) {
  std::string cases;
  for (const Command& command : commands)
    for (const Flag& flag : command.flags) {
      if (!flag.takes_value || flag.takes_field) continue;
      Words patterns;
      for (const std::string& name : flag.names) patterns.push_back(command.name + ":" + name);
      cases += "    " + joined(patterns, "|") + ") " +
               (flag.values.empty() ? files : before + joined(flag.values) + after) + " ;;\n";
    }
  return cases;
}

/// bash cuts words at "=", so a field and its value are words of their own.
std::string bash_script(const std::vector<Command>& commands) {
  Words names;
  std::string cases;
  for (const Command& command : commands) {
    names.push_back(command.name);
    cases += "    " + command.name + ":-*) words='" + joined(flag_names(command)) + "' ;;\n";
    cases += "    " + command.name + ":*) words='" + joined(command.words) + "'; files='" +
             command.files + "' ;;\n";
  }
  return "# lockstep completion bash: source it, or put it into bash-completion's folder.\n"
         "_lockstep() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local command=${COMP_WORDS[1]} key='' words='' files='' name\n"
         "  COMPREPLY=()\n"
         "  [[ $word == '=' ]] && key=$before word=''\n"
         "  [[ $before == '=' ]] && key=${COMP_WORDS[COMP_CWORD-2]}\n"
         "  if (( COMP_CWORD == 1 )); then\n"
         "    words='" +
         joined(names) +
         "'\n"
         "  elif [[ -n $key ]]; then case $key in\n" +
         field_cases("words='", "'") +
         "  esac\n"
         "  elif [[ $before == --set ]]; then\n"
         "    words='" +
         joined(fields_with_equals()) +
         "'\n"
         "    compopt -o nospace 2>/dev/null\n"
         "  else case $command:$before in\n" +
         flag_cases(commands, "words='", "'", "files='*'") + "    *) case $command:$word in\n" +
         cases +
         "    esac ;;\n"
         "  esac; fi\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "  [[ -z $files ]] && return\n"
         "  compopt -o filenames 2>/dev/null\n"
         "  while IFS= read -r name; do\n"
         "    [[ -d $name || $name == $files ]] && COMPREPLY+=(\"$name\")\n"
         "  done < <(compgen -f -- \"$word\")\n"
         "}\n"
         "complete -F _lockstep lockstep\n";
}

std::string zsh_script(const std::vector<Command>& commands) {
  std::string names;
  std::string cases;
  for (const Command& command : commands) {
    names += " '" + command.name + ":" + command.about + "'";
    std::string flags;
    for (const Flag& flag : command.flags)
      for (const std::string& name : flag.names) flags += " '" + name + ":" + flag.about + "'";
    cases += "    " + command.name + ":-*) list=(" + flags + " ); _describe flag list ;;\n";
    cases += "    " + command.name + ":*) compadd -- " + joined(command.words) +
             (command.files.empty() ? "" : "; _files -g '" + command.files + "'") + " ;;\n";
  }
  return "#compdef lockstep\n"
         "# lockstep completion zsh: put it into a folder of $fpath as _lockstep, or source it.\n"
         "_lockstep() {\n"
         "  local -a list\n"
         "  local command=$words[2] before=$words[CURRENT-1]\n"
         "  if (( CURRENT == 2 )); then\n"
         "    list=(" +
         names +
         " ); _describe command list\n"
         "  elif [[ $before == --set && $PREFIX == *=* ]]; then\n"
         "    local key=${PREFIX%%=*}\n"
         "    compset -P '*='\n"
         "    case $key in\n" +
         field_cases("compadd -- ", "") +
         "    esac\n"
         "  elif [[ $before == --set ]]; then\n"
         "    compadd -S '' -- " +
         joined(fields_with_equals()) +
         "\n"
         "  else case $command:$before in\n" +
         flag_cases(commands, "compadd -- ", "", "_files") + "    *) case $command:$PREFIX in\n" +
         cases +
         "    esac ;;\n"
         "  esac; fi\n"
         "}\n"
         "if [[ $funcstack[1] == _lockstep ]]; then _lockstep; else compdef _lockstep lockstep; "
         "fi\n";
}

std::string fish_script(const std::vector<Command>& commands) {
  Words fields;
  for (const auto& [name, values] : field_values()) {
    if (values.empty()) fields.push_back(name + "=");
    for (const std::string& value : values) fields.push_back(name + "=" + value);
  }
  std::string script =
      "# lockstep completion fish: put it into ~/.config/fish/completions/lockstep.fish\n"
      "complete -c lockstep -n __fish_use_subcommand -f\n";
  for (const Command& command : commands) {
    const std::string here = "complete -c lockstep -n '__fish_seen_subcommand_from " + command.name;
    script += "complete -c lockstep -n __fish_use_subcommand -a " + command.name + " -d '" +
              command.about + "'\n";
    script +=
        here + "' -a '" + joined(command.words) + "'" + (command.files.empty() ? " -f" : "") + "\n";
    for (const Flag& flag : command.flags) {
      script += here + "'";
      for (const std::string& name : flag.names)
        script += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (flag.takes_field)
        script += " -x -a '" + joined(fields) + "'";
      else if (!flag.values.empty())
        script += " -x -a '" + joined(flag.values) + "'";
      else if (flag.takes_value)
        script += " -r";
      script += " -d '" + flag.about + "'\n";
    }
  }
  return script;
}

}  // namespace

std::string completion_script(const CLI::App& app, Shell shell) {
  const auto commands = commands_of(app);
  switch (shell) {
    case Shell::bash:
      return bash_script(commands);
    case Shell::zsh:
      return zsh_script(commands);
    case Shell::fish:
      return fish_script(commands);
  }
  return "";
}

void add_completion(CLI::App& app, Run& run) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "completion",
      "Prints a script that completes commands, flags, recipes and --set: source <(lockstep "
      "completion bash).");
  const std::map<std::string, Shell> shells = {
      {"bash", Shell::bash}, {"zsh", Shell::zsh}, {"fish", Shell::fish}};
  command->add_option("shell", *shell, "the shell that is to read it")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([=, &app, &run] {
    run = [=, &app] {
      std::cout << completion_script(app, shells.at(*shell));
      return 0;
    };
  });
}

}  // namespace lockstep::apps
