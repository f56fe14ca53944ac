#!/usr/bin/env bash
# What only a machine with an NVIDIA GPU can show, within eight minutes: the probe, energy counter against integrated
# power, and a sweep of BERT and GPT-2 with energy. From the repository's root:
#
#   scripts/gpu_check.sh                    results in $OUT, or build/gpu_check
#   scripts/gpu_check.sh --rehearse         the same stages on a CPU, short; a scripted driver stands in for the GPU's
#   scripts/gpu_check.sh --wheels FOLDER    install from a folder of wheels, for machines without a package index:
#                                           pip wheel --no-deps -w FOLDER . && pip download -d FOLDER msgspec ...
#
# A torch that is there already is used; what is missing is installed into a virtual environment. Every stage has a
# time limit and writes its results as they come, so that a stage that fails or is cut off costs the others nothing.
# Exit code: 0 all there, 1 something is missing (summary.json says what), 2 the environment could not be made.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

rehearse="" wheels=""
while [ $# -gt 0 ]; do
    case "$1" in
        --rehearse) rehearse=1 ;;
        --wheels) wheels=$(realpath "${2:?--wheels needs a folder}"); shift ;;
        *) echo "unknown option $1; see the head of $0" >&2; exit 2 ;;
    esac
    shift
done

out=${OUT:-build/gpu_check}
work=${WORK:-build/gpu_check_work}
python=${PYTHON:-python3}
[ -z "${PYTHON:-}" ] && [ -x .venv/bin/python ] && python=.venv/bin/python
mkdir -p "$out" "$work" || exit 2
out=$(realpath "$out") work=$(realpath "$work")
export PYTHONUNBUFFERED=1
[ -e "$out/stages.txt" ] && { echo "$out holds the results of another check: move them, or set OUT" >&2; exit 2; }

# Seconds from the start: of everything, and at most of each stage.
if [ -n "$rehearse" ]; then
    total=420 setup=180 doctor=40 probe=120 counter=90 sweep=120 summary=60
    probe_for=10 counter_for=8 sweep_for=40
else
    total=480 setup=150 doctor=20 probe=90 counter=50 sweep=330 summary=30
    probe_for=50 counter_for=24 sweep_for=270
fi

# stage NAME LIMIT_S COMMAND...: run within the limit and what is left of the total, keep what it prints, go on.
stage() {
    local name=$1 limit=$2 left=$((total - SECONDS)) start=$SECONDS code
    shift 2
    [ "$name" = summary ] && left=$limit
    [ "$left" -lt "$limit" ] && limit=$left
    if [ "$limit" -lt 5 ]; then
        echo "$name: no time left" | tee -a "$out/stages.txt"
        return 1
    fi
    # An interrupt first: a sweep then finishes its configuration, and power limits are given back.
    timeout --signal=INT --kill-after=15 "$limit" "$@" 2>&1 | tee -a "$out/log.txt"
    code=${PIPESTATUS[0]}
    echo "$name: exit code $code after $((SECONDS - start)) s of $limit" | tee -a "$out/stages.txt"
    return "$code"
}

setup() {
    "$python" -m venv "$work/venv" || return 1
    # Packages of the Python at hand are used, above all a torch that knows this machine's driver.
    "$python" - > "$work/there.txt" <<'PY'
import sys
print(*[path for path in sys.path if path.endswith(("site-packages", "dist-packages"))], sep="\n")
PY
    cp "$work/there.txt" "$("$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/there.pth"
    if [ -n "$wheels" ]; then
        "$work/venv/bin/python" -m pip install --quiet --no-index --find-links "$wheels" "wattlaw[measure]" || return 1
    else
        "$work/venv/bin/python" -m pip install --quiet ${TORCH:-} ".[measure]" || return 1
    fi
    "$work/venv/bin/python" - "$rehearse" <<'PY'
import sys, msgspec, torch, transformers, wattlaw
print("torch", torch.__version__, "transformers", transformers.__version__, "cuda", torch.cuda.is_available())
sys.exit(0 if sys.argv[1] or torch.cuda.is_available() else 1)
PY
}

# The driver of tests/measure/fake_nvml, so that a rehearsal goes through the meters too; its energies are invented.
scripted_driver() {
    mkdir -p "$work/driver" &&
        cc -O1 -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o "$work/driver/libnvidia-ml.so.1" \
            tests/measure/fake_nvml/nvml.c -lm &&
        printf 'uuid GPU-rehearsal\nname NVIDIA H200\ntrace 0 120 1000 120\n' > "$work/driver/gpu0"
}

export -f setup scripted_driver
export out work python wheels rehearse
if ! stage setup "$setup" bash -c setup; then
    echo "the environment could not be made; $out/log.txt says why" >&2
    exit 2
fi
bin=$work/venv/bin

driver=()
if [ -n "$rehearse" ] && scripted_driver; then
    driver=(env "LD_LIBRARY_PATH=$work/driver" "FAKE_NVML_DIR=$work/driver")
fi
check=("$bin/python" scripts/gpu_check.py)

stage doctor "$doctor" "$bin/python" -m wattlaw.cli doctor --json
stage probe "$probe" "$bin/python" -m wattlaw.cli probe -o "$out/host.json" --seconds "$probe_for"
stage counter "$counter" "${driver[@]}" "${check[@]}" counter "$out/readings.jsonl" --seconds "$counter_for" \
    --precision "$([ -n "$rehearse" ] && echo fp32 || echo fp16)"
if [ -n "$rehearse" ]; then
    stage plan "$doctor" "$bin/python" -m wattlaw.cli measure examples/gpu_sweep.toml --dry-run
    stage sweep "$sweep" "$bin/python" -m wattlaw.cli measure examples/cpu_sweep.toml -o "$out/runs" \
        --max-seconds "$sweep_for"
else
    stage sweep "$sweep" "$bin/python" -m wattlaw.cli measure examples/gpu_sweep.toml -o "$out/runs" \
        --gpu "$("${check[@]}" gpu)" --max-seconds "$sweep_for"
fi
stage summary "$summary" "${check[@]}" summary "$out" ${rehearse:+--rehearsal}
code=$?
# Few files: what the ranks printed goes into the log, and the sweep's file is in the repository.
for folder in "$out"/runs/*/; do
    [ -e "$folder/ranks.log" ] && tail -c 20000 "$folder/ranks.log" >> "$out/log.txt"
    rm -f "$folder/ranks.log" "$folder/sweep.toml"
done
exit "$code"
