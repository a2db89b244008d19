# Processes of Freshet for a script that sources this file: a folder `work` and processes that end with the script.
# FRESHET_PROGRAM names the program. A process may take FRESHET_TEST_PATIENCE seconds to start (default: 300).

work=$(mktemp -d)
processes=()
finish() {
    local process
    for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
    for process in "${processes[@]}"; do wait "$process" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT

# Starts a process of Freshet and waits for the line of JSON that says that it is ready.
start() {
    local name=$1 attempt
    shift
    "$FRESHET_PROGRAM" "$@" >"$work/$name.out" 2>"$work/$name.err" &
    processes+=($!)
    for attempt in $(seq $((5 * ${FRESHET_TEST_PATIENCE:-300}))); do
        [[ ! -s $work/$name.out ]] || return 0
        kill -0 "${processes[-1]}" 2>/dev/null || break
        sleep 0.2
    done
    cat "$work/$name.err" >&2
    printf '%s: %s did not start\n' "${0##*/}" "$name" >&2
    exit 1
}

# Prints a member of a process's line of JSON.
field() {
    python3 -c 'import json, sys; print(eval("json.load(open(sys.argv[1]))" + sys.argv[2]))' "$work/$1.out" "$2"
}
