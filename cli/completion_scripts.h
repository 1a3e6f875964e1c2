// The completion scripts, with places (@VERBS@ ..) that completion.cpp fills in.
//
// In all of them: `verb` is the verb so far, `wants` what may stand at the cursor: recipe, keys, folder, strategies,
// "words:a b", text. "recipe keys" means a recipe first and keys after it; "recipe? keys" keys at any time.
#pragma once

namespace thinwire::cli {

inline constexpr const char* kBashCompletion =
    R"sh(# Completion of thinwire for bash: eval "$(thinwire completion bash)"
_thinwire() {
  local line=${COMP_LINE:0:COMP_POINT} verb='' flags='' wants='' values='' before='' cur prev
  local -a given
  read -ra given <<<"$line"
  cur=${line##*[[:space:]]}
  [[ -n $cur ]] && unset 'given[${#given[@]}-1]'
  prev=${given[${#given[@]}-1]}
  verb=${given[1]-}
  case $verb in
@VERBS@  esac
  # Bash takes what is behind a '=' for a word of its own, if '=' breaks words.
  if [[ $cur == --*=* ]]; then
    prev=${cur%%=*}
    [[ $COMP_WORDBREAKS == *=* ]] || before=$prev=
    cur=${cur#*=}
  fi
  case "$verb $prev" in
@FLAGS@  esac
  if [[ $wants == *keys* ]]; then
    if [[ $cur == *=* ]]; then
      case ${cur%%=*} in
    data.path) wants=file ;;
@VALUES@      esac
      [[ $COMP_WORDBREAKS == *=* ]] || before=${cur%%=*}=
      [[ $wants == file ]] || wants="words:$values"
      cur=${cur#*=}
    elif [[ $wants == 'recipe keys' ]]; then
      [[ "${given[*]}" == *.toml* ]] && wants=keys || wants=recipe
    fi
  fi
  COMPREPLY=()
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
    return
  fi
  case $wants in
    words:*) COMPREPLY=($(compgen -P "$before" -W "${wants#words:}" -- "$cur")) ;;
    strategies)
      [[ $cur == *,* ]] && before=$before${cur%,*},
      COMPREPLY=($(compgen -P "$before" -W '@STRATEGIES@' -- "${cur##*,}"))
      compopt -o nospace 2>/dev/null ;;
    folder) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    recipe*)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$cur"; compgen -f -X '!*.toml' -- "$cur") ;;&
    *keys*)
      COMPREPLY+=($(compgen -S = -W '@KEYS@' -- "$cur"))
      compopt -o nospace 2>/dev/null ;;
  esac
}
complete -F _thinwire thinwire
)sh";

inline constexpr const char* kZshCompletion = R"sh(#compdef thinwire
# Completion of thinwire for zsh: save it as _thinwire in a folder of $fpath, or source it after compinit.
_thinwire() {
  local cur=${words[CURRENT]} prev=${words[CURRENT-1]} verb='' wants='' values=''
  local -a verbs flags
  (( CURRENT > 2 )) && verb=${words[2]}
  case $verb in
@VERBS@  esac
  if [[ $cur == --*=* ]]; then
    prev=${cur%%=*}
    cur=${cur#*=}
    compset -P '*='
  fi
  case "$verb $prev" in
@FLAGS@  esac
  if [[ $cur == -* ]]; then
    _describe flag flags
    return
  fi
  if [[ $wants == *keys* ]]; then
    if [[ $cur == *=* ]]; then
      case ${cur%%=*} in
    data.path) wants=file ;;
@VALUES@      esac
      [[ $wants == file ]] || wants="words:$values"
      compset -P '*='
    elif [[ $wants == 'recipe keys' && "$words" != *.toml* ]]; then
      wants=recipe
    fi
  fi
  case $wants in
    '') (( CURRENT == 2 )) && _describe verb verbs ;;
    words:*) compadd -- ${=${wants#words:}} ;;
    strategies) compset -P '*,'; compadd -S '' -- @STRATEGIES@ ;;
    folder) _files -/ ;;
    file) _files ;;
    recipe) _files -g '*.toml' ;;
    'recipe? keys') _files -g '*.toml'; compadd -S '=' -- @KEYS@ ;;
    *keys) compadd -S '=' -- @KEYS@ ;;
  esac
}
if [[ ${funcstack[1]-} == _thinwire ]]; then
  _thinwire "$@"
else
  compdef _thinwire thinwire
fi
)sh";

inline constexpr const char* kFishCompletion = R"sh(# Completion of thinwire for fish: thinwire completion fish | source
function __thinwire_at
    set -l given (commandline -opc)
    test "$given[2]" = "$argv[1]"
end
function __thinwire_strategies
    printf '%s\n' @STRATEGIES@
end
function __thinwire_keys
    printf '%s\t%s\n' \
@KEYS@
end
complete -c thinwire -f
complete -c thinwire -n __thinwire_at -l help -d 'show help'
complete -c thinwire -n __thinwire_at -l version -d 'show the version'
@VERBS@)sh";

}  // namespace thinwire::cli
