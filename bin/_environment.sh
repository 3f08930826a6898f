# Sourced by the launchers: makes or refreshes `.venv` at the root of the checkout.
#
#   CRUX_EXTRAS   the extras to install, and no other; may be empty. Unset: bin/crux begins without any and adds
#                 each when a command needs it (oracles/extras.py), bin/test and bin/check begin with all
#   CRUX_PYTHON   the interpreter to make `.venv` with; without it the first of python3.11, python3.12, python3
#                 that really is 3.11 or 3.12
#
# stdout stays clean for the command that follows; what happens here is told on stderr. Exit code 3 when the
# environment cannot be made. `.venv/stamp` is written last, `.venv/unfinished` first: an install that was
# interrupted leaves the second behind, and the next start makes the environment anew. Adding an extra changes
# no package that is there, so commands go on beside it; whatever changes one waits until they have ended.

root=$(cd -P -- "${BASH_SOURCE[0]%/*}/.." && pwd)
venv=$root/.venv
extras=${CRUX_EXTRAS-}
installed=

say() { printf 'crux: %s\n' "$*" >&2; }

give_up() {
    say "$*"
    exit 3
}

has_extra() { [[ ,$1, == *,$2,* ]]; } # LIST NAME

# For a launcher that cannot do without an extra, whatever CRUX_EXTRAS says.
require_extra() { has_extra "$extras" "$1" || extras=${extras:+$extras,}$1; }

# For a launcher that needs everything, unless CRUX_EXTRAS says less.
default_to_all() { extras=${CRUX_EXTRAS-tvm,torch,dev}; }

# What `.venv` is made from, extras aside. The root is part of it: an environment does not survive being moved.
digest() {
    local interpreter
    interpreter=$(readlink -f -- "$venv/bin/python") || interpreter=
    printf '%s\n' "$root" "$interpreter" | cat - "$root/pyproject.toml" "$root/constraints.txt" | sha256sum
}

write_stamp() { printf '%s\n' "$extras" "$(digest)" >"$venv/stamp"; }

# Whether `.venv` is whole, with whatever extras, which are then `installed`.
is_made() {
    local stamped
    [[ -r $venv/stamp && -x $venv/bin/python && -x $venv/bin/crux && ! -e $venv/unfinished ]] || return
    { read -r installed && read -r stamped; } <"$venv/stamp" || return
    [[ $stamped == "$(digest)" ]]
}

missing_extras() {
    local extra
    for extra in ${extras//,/ }; do
        has_extra "$installed" "$extra" || printf '%s\n' "$extra"
    done
}

is_up_to_date() { is_made && [[ -z $(missing_extras) ]]; }

# A version manager's shim is found on PATH although it runs nothing, and some systems' python has no venv:
# so a candidate counts only after it has run.
is_suitable_python() {
    "$1" -I -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' \
        </dev/null >/dev/null 2>&1
}

find_python() {
    local name path
    if [[ -n ${CRUX_PYTHON-} ]]; then
        is_suitable_python "$CRUX_PYTHON" || return 1
        printf '%s\n' "$CRUX_PYTHON"
        return
    fi
    for name in python3.11 python3.12 python3; do
        while IFS= read -r path; do
            if is_suitable_python "$path"; then
                printf '%s\n' "$path"
                return
            fi
        done < <(type -ap "$name")
    done
    return 1
}

require_platform() {
    case $(uname -sm) in
        'Linux x86_64' | 'Linux aarch64') ;;
        *) give_up "runs on Linux on x86-64 and aarch64, this is $(uname -sm)" ;;
    esac
}

make_venv() {
    local python
    if [[ ! -e $venv/unfinished ]] && is_suitable_python "$venv/bin/python"; then return; fi
    python=$(find_python) ||
        give_up "no usable Python 3.11 or 3.12 with venv found${CRUX_PYTHON:+ at $CRUX_PYTHON}; install one, or name it in CRUX_PYTHON"
    say "making .venv with $("$python" --version) ($python)"
    mkdir -p "$venv"
    : >"$venv/unfinished"
    local told
    told=$("$python" -I -m venv --clear --without-pip "$venv" 2>&1) || give_up "$python cannot make $venv (${told##*$'\n'})"
    : >"$venv/unfinished"
}

# Sets `pip`: the environment's own, or that of the Python it was made with, which saves installing one.
find_pip() {
    pip=("$venv/bin/python" -I -m pip)
    "${pip[@]}" --version >/dev/null 2>&1 && return
    pip=("$(readlink -f -- "$venv/bin/python")" -I -m pip --python "$venv/bin/python")
    "${pip[@]}" --version >/dev/null 2>&1 && return
    pip=("$venv/bin/python" -I -m pip)
    "$venv/bin/python" -I -m ensurepip --default-pip >"$venv/install.log" 2>&1 </dev/null ||
        give_up "pip cannot be installed; see $venv/install.log"
}

# Turns one line of pip's into a few words, or nothing.
describe() {
    local words
    read -ra words <<<"$1"
    case $1 in
        Collecting\ *) activity="resolving ${words[1]%%[<>=!~;[]*}" ;;
        *Installing\ build\ dependencies*) activity='fetching the build backend' ;;
        *Downloading\ *.whl* | *Processing\ *.whl*) activity="fetching ${words[1]##*/}" ;;
        Installing\ collected\ packages:*) activity="installing $((${#words[@]} - 3)) packages" ;;
    esac
}

# Copies pip's lines to the log and tells how far it is: one line rewritten on a terminal, else one every 10 s.
show_progress() {
    local line status activity='starting pip' told=-10
    while true; do
        status=0
        IFS= read -r -t 1 line || status=$?
        if ((status == 0)); then
            printf '%s\n' "$line" >>"$venv/install.log"
            if [[ $line == Installing\ collected* ]]; then : >"$venv/adding"; fi
            describe "$line"
        elif ((status < 128)); then
            break
        fi
        if [[ -t 2 ]]; then
            printf '\r\033[Kcrux: %3d s  %.90s' "$SECONDS" "$activity" >&2
        elif ((SECONDS - told >= 10)); then
            say "$SECONDS s  $activity"
            told=$SECONDS
        fi
    done
    if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
}

# Runs pip for requirements; while it writes to the environment, `.venv/adding` is there.
install_packages() { # REQUIREMENT...
    find_pip
    mkdir -p "$venv/tmp"
    : >"$venv/install.log"
    TMPDIR=$venv/tmp PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1 "${pip[@]}" install \
        --no-input --no-compile --progress-bar off --constraint "$root/constraints.txt" "$@" 2>&1 </dev/null |
        show_progress
}

# pip would compile on one core. Packages may hold files that are not meant for this Python: no failure. Our own
# are compiled too: many a container sets PYTHONDONTWRITEBYTECODE, and each start would compile them again.
# What is large and hardly imported is left out, unless torch needs it.
compile_packages() {
    local leave_out=/none/
    has_extra "$extras" torch || leave_out='/(sympy|mpmath|pygments|setuptools|pkg_resources|pip|tests?)/'
    say "$SECONDS s  compiling"
    "$venv/bin/python" -I -m compileall -qq -j 0 -x "$leave_out" \
        "$venv/lib" "$root"/{corpus,oracles,reducer,generators,triage,tensorcrux.py} \
        >>"$venv/install.log" 2>&1 </dev/null || true
}

# The requirements of the extras that are missing: the checkout itself stays as it is installed.
missing_requirements() {
    missing_extras | "$venv/bin/python" -I -c 'import sys, tomllib
extras = tomllib.load(open(sys.argv[1], "rb"))["project"]["optional-dependencies"]
print(*(each for line in sys.stdin for each in extras[line.strip()]), sep="\n")' "$root/pyproject.toml"
}

can_be_added_to() { is_made && [[ ! -e $venv/adding ]]; }

refresh() {
    local wanted
    require_platform
    SECONDS=0
    if can_be_added_to; then
        say "adding $(missing_extras | paste -sd ,) to .venv, which this command needs; the next finds it there"
        mapfile -t wanted < <(missing_requirements)
        keep_extras
    else
        keep_extras
        wanted=(--editable "$root${extras:+[$extras]}")
        wait_for_running
        [[ ! -e $venv/adding ]] || : >"$venv/unfinished"
        make_venv
        : >"$venv/unfinished"
        rm -f "$venv/stamp"
        say "installing tensorcrux${extras:+ with $extras} into .venv"
    fi
    if ! install_packages "${wanted[@]}"; then
        tail -n 5 "$venv/install.log" >&2
        give_up "the install failed after $SECONDS s; the whole log is $venv/install.log"
    fi
    rm -rf "$venv/tmp"
    compile_packages
    write_stamp
    rm -f "$venv/unfinished" "$venv/adding"
    say "ready after $SECONDS s"
}

# An environment that is refreshed keeps the extras it had.
keep_extras() {
    local extra
    [[ -r $venv/stamp ]] && read -r installed <"$venv/stamp" || return 0
    for extra in ${installed//,/ }; do require_extra "$extra"; done
}

wait_for_running() {
    mkdir -p "$venv"
    exec 8<"$venv"
    flock --nonblock 8 && return
    say "another command is running in .venv, whose packages are to change; waiting until it ends"
    flock 8
}

# Whether an extra was half added; takes the lock then.
was_interrupted() { [[ -e $venv/adding ]] && flock --nonblock 9; }

# What a command that runs calls when it needs an extra; never waits for that command to end.
add_extra() { # NAME...
    local name
    for name in "$@"; do require_extra "$name"; done
    exec 9<"$root"
    flock 9
    can_be_added_to || give_up "the checkout was changed meanwhile; start the command again"
    is_up_to_date || refresh
}

# Two starts at once: the second waits on the lock (on the root folder, so that no file is left), then finds
# nothing to do. pip inherits the lock, so a start after a killed one waits until that pip has ended. The
# command that follows holds `.venv` open, shared with others, as long as it runs.
prepare_environment() {
    trap 'say "interrupted; the next start goes on"; exit 130' INT
    exec 9<"$root"
    if ! is_up_to_date || was_interrupted; then
        if ! flock --nonblock 9; then
            say "another start is installing; waiting for it"
            flock 9
        fi
        if ! is_up_to_date || [[ -e $venv/adding ]]; then refresh; fi
    fi
    exec 8<"$venv" 9<&-
    flock --shared 8
    trap - INT
}
