# Completion of thinwire for bash: eval "$(thinwire completion bash)"
_thinwire() {
  local line=${COMP_LINE:0:COMP_POINT} verb='' flags='' wants='' values='' before='' cur prev
  local -a given
  read -ra given <<<"$line"
  cur=${line##*[[:space:]]}
  [[ -n $cur ]] && unset 'given[${#given[@]}-1]'
  prev=${given[${#given[@]}-1]}
  verb=${given[1]-}
  case $verb in
@VERBS@
  esac
  # Bash takes what is behind a '=' for a word of its own, if '=' breaks words.
  if [[ $cur == --*=* ]]; then
    prev=${cur%%=*}
    [[ $COMP_WORDBREAKS == *=* ]] || before=$prev=
    cur=${cur#*=}
  fi
  case "$verb $prev" in
@FLAGS@
  esac
  if [[ $wants == *keys* ]]; then
    if [[ $cur == *=* ]]; then
      case ${cur%%=*} in
    data.path) wants=file ;;
@VALUES@
      esac
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
    list:*)
      [[ $cur == *,* ]] && before=$before${cur%,*},
      COMPREPLY=($(compgen -P "$before" -W "${wants#list:}" -- "${cur##*,}"))
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
