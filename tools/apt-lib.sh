# shellcheck shell=bash
#
# apt-lib.sh -- apt with sources and lists of its own, so that no user, root or not, changes the system's (bash).
#
# private_apt TYPES SUITE...   In the current directory, which gets a folder apt: the named suites of Debian, from the
#                              mirror that this machine uses, with their updates where they have any. TYPES is deb-src,
#                              or "deb deb-src". Sets APT_CONFIG for the apt commands that follow.

apt_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# PATH: the machine's mirror of Debian's archive of that name (debian, debian-security).
apt_mirror() { apt-get indextargets --format '$(REPO_URI)' | sed 's,/*$,,' | grep -m 1 "/$1\$"; }

private_apt() {
	local types=$1 type suite main security
	shift
	main=$(apt_mirror debian) || { echo "apt-lib: apt knows no mirror of Debian" >&2; return 1; }
	security=$(apt_mirror debian-security) || security=
	mkdir -p apt/lists/partial apt/archives/partial
	for type in $types; do
		for suite in "$@"; do
			echo "$type [signed-by=$apt_keyring] $main $suite main"
			[ "$suite" != sid ] || continue
			echo "$type [signed-by=$apt_keyring] $main $suite-updates main"
			[ -z "$security" ] || echo "$type [signed-by=$apt_keyring] $security $suite-security main"
		done
	done >apt/sources.list
	cat >apt/apt.conf <<-END
		Dir::Etc::SourceList "$PWD/apt/sources.list";
		Dir::Etc::SourceParts "/dev/null";
		Dir::State::Lists "$PWD/apt/lists";
		Dir::Cache "$PWD/apt";
		APT::Sandbox::User "";
		Acquire::Retries "2";
		Acquire::http::Timeout "20";
	END
	export APT_CONFIG=$PWD/apt/apt.conf
	apt-get update -qq >&2
}
