# SPDX-License-Identifier: MIT
# bash completion for runnel(1): commands, their options as --help lists them, values, files.

_runnel()
{
	local line=${COMP_LINE:0:COMP_POINT} command=${COMP_WORDS[1]-} cur name options
	cur=${line##*[[:space:]]}	# not COMP_WORDS, where bash ends a word at a "="
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		COMPREPLY=($(compgen -W 'bench check info lint report top --help --version' -- "$cur"))
		return
	fi
	case $command in
	bench | check | info | lint | report | top) ;;
	*) return ;;
	esac
	case $cur in
	--*=*)
		name=${cur%%=*}= cur=${cur#*=}
		if [ "$name" = --device= ]; then
			COMPREPLY=($(compgen -W 'auto cuda host' -- "$cur"))
		else
			compopt -o filenames 2>/dev/null
			COMPREPLY=($(compgen -f -- "$cur"))
		fi
		[[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${COMPREPLY[@]/#/$name}")
		;;
	-*)
		options=$("${COMP_WORDS[0]}" "$command" --help 2>/dev/null |
			sed -n 's/^ *\(--[a-z-]*=\{0,1\}\).*/\1/p')
		COMPREPLY=($(compgen -W "$options" -- "$cur"))
		[[ ${COMPREPLY-} != *= ]] || compopt -o nospace 2>/dev/null
		;;
	*)
		case $command in lint | report | top) ;; *) return ;; esac
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -f -- "$cur"))
		;;
	esac
}
complete -F _runnel runnel
