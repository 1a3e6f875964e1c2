#compdef thinwire
# Completion of thinwire for zsh: save it as _thinwire in a folder of $fpath, or source it after compinit.
_thinwire() {
  local cur=${words[CURRENT]} prev=${words[CURRENT-1]} verb='' wants='' values=''
  local -a verbs flags
  (( CURRENT > 2 )) && verb=${words[2]}
  case $verb in
@VERBS@
  esac
  if [[ $cur == --*=* ]]; then
    prev=${cur%%=*}
    cur=${cur#*=}
    compset -P '*='
  fi
  case "$verb $prev" in
@FLAGS@
  esac
  if [[ $cur == -* ]]; then
    _describe flag flags
    return
  fi
  if [[ $wants == *keys* ]]; then
    if [[ $cur == *=* ]]; then
      case ${cur%%=*} in
    data.path) wants=file ;;
@VALUES@
      esac
      [[ $wants == file ]] || wants="words:$values"
      compset -P '*='
    elif [[ $wants == 'recipe keys' && "$words" != *.toml* ]]; then
      wants=recipe
    fi
  fi
  case $wants in
    '') (( CURRENT == 2 )) && _describe verb verbs ;;
    words:*) compadd -- ${=${wants#words:}} ;;
    list:*) compset -P '*,'; compadd -S '' -- ${=${wants#list:}} ;;
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
