# shellcheck shell=bash
#
# args.sh -- the options of the scripts in bench/ (bash, `set -euo pipefail`).
#
#   . lib/args.sh
#   option warehouses count 2      # a variable $warehouses, from --warehouses N or --warehouses=N
#   option fk flag                 # $fk is false, or true with --fk
#   connection_options             # --host --port --db --user, else PGHOST and so on decide
#   parse_args "$@"                # an unknown option or a bad value ends the script with status 2
#
# Kinds: flag, count (1, 2, ...), name (an SQL identifier without quotes), text. --help prints the header
# comment of the script. A dash in an option's name is an underscore in its variable's.

declare -A option_kind

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 2
}

print_help() { sed -n '3,/^$/s/^# \{0,1\}//p' "$0"; }

option() {
	option_kind[$1]=$2
	printf -v "${1//-/_}" %s "${3-}"
	[ "$2" != flag ] || printf -v "${1//-/_}" false
}

connection_options() {
	option host text
	option port count
	option db text
	option user text
}

check_value() {
	case ${option_kind[$1]} in
	count) [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || die "--$1 wants a whole number above 0, not '$2'" ;;
	name) [[ $2 =~ ^[a-z_][a-z0-9_]{0,50}$ ]] || die "--$1 wants a plain lower-case name, not '$2'" ;;
	text) [ -n "$2" ] || die "--$1 wants a value" ;;
	esac
}

parse_args() {
	local name value
	while [ $# -gt 0 ]; do
		[ "$1" != --help ] || { print_help; exit 0; }
		[[ $1 == --* ]] || die "what is '$1'? --help tells"
		name=${1#--}
		name=${name%%=*}
		case ${option_kind[$name]-} in
		'') die "no option --$name; --help tells which there are" ;;
		flag)
			[[ $1 != *=* ]] || die "--$name takes no value"
			value=true
			;;
		*)
			if [[ $1 == *=* ]]; then
				value=${1#*=}
			else
				[ $# -ge 2 ] || die "--$name wants a value"
				value=$2
				shift
			fi
			check_value "$name" "$value"
			;;
		esac
		printf -v "${name//-/_}" %s "$value"
		shift
	done
	[ -z "${host-}" ] || export PGHOST=$host
	[ -z "${port-}" ] || export PGPORT=$port
	[ -z "${db-}" ] || export PGDATABASE=$db
	[ -z "${user-}" ] || export PGUSER=$user
}
