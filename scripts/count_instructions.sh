#!/usr/bin/env bash
# Counts the instructions that encoding takes: the same on a busy machine as on an idle one. Needs valgrind, a folder of
# texts that make_corpus.py made, and one of requests that make_requests.py made (see docs/performance.md).
#
#     scripts/count_instructions.sh FOLDER REQUESTS
#
# Of a text: for each byte. Cold is the first pass over the first 128 KiB, warm the second one. Of a request: thousands as
# far as a stage, each with those before it. The second time its segments are kept ones.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?the folder of texts}
requests=${2:?the folder of requests}
# A longer text is encoded by several threads, each of which meets pieces for the first time.
bytes=131071
# Other machine code has other counts: this is the profile that is measured and shipped, with names for the profile.
CARGO_PROFILE_RELEASE_STRIP=none cargo build --quiet --release --locked -p recipe-core \
    --example encode_file --example encode_request
count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "target/release/examples/$1" "${@:2}" 2>&1 |
        sed -n 's/.*Collected : //p'
}
printf '| text | cold | warm |\n|---|---|---|\n'
for text in en code agent zh; do
    none=$(count encode_file "$folder/$text.txt" $bytes 0)
    one=$(count encode_file "$folder/$text.txt" $bytes 1)
    two=$(count encode_file "$folder/$text.txt" $bytes 2)
    awk -v text=$text -v bytes=$bytes -v none="$none" -v one="$one" -v two="$two" \
        'BEGIN { printf "| %s | %.1f | %.1f |\n", text, (one - none) / bytes, (two - one) / bytes }'
done
printf '\n| request, stage | first | second |\n|---|---|---|\n'
for request in tiny agent; do
    none=$(count encode_request "$requests/$request.json" ids 0)
    for stage in parse convert render ids; do
        one=$(count encode_request "$requests/$request.json" $stage 1)
        two=$(count encode_request "$requests/$request.json" $stage 2)
        echo "| $request, $stage | $(((one - none) / 1000)) | $(((two - one) / 1000)) |"
    done
done
