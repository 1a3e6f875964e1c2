# Completion of thinwire for fish: thinwire completion fish | source
function __thinwire_at
    set -l given (commandline -opc)
    test "$given[2]" = "$argv[1]"
end
function __thinwire_keys
    printf '%s\t%s\n' \
@KEYS@
end
complete -c thinwire -f
complete -c thinwire -n __thinwire_at -l help -d 'show help'
complete -c thinwire -n __thinwire_at -l version -d 'show the version'
@VERBS@
