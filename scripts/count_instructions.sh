#!/usr/bin/env bash
# Counts the instructions that encoding takes, a byte: the same on a busy machine as on an idle one. Needs valgrind, and
# a folder of texts that make_corpus.py made (see docs/performance.md).
#
#     scripts/count_instructions.sh FOLDER
#
# Cold is the first pass over the first 256 KiB of a text, warm the second one.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?the folder of texts}
bytes=262144
# Other machine code has other counts: this is the profile that is measured and shipped, with names for the profile.
CARGO_PROFILE_RELEASE_STRIP=none cargo build --quiet --release --locked -p recipe-core --example encode_file
count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/encode_file "$@" 2>&1 |
        sed -n 's/.*Collected : //p'
}
printf '| text | cold | warm |\n|---|---|---|\n'
for text in en code agent zh; do
    none=$(count "$folder/$text.txt" $bytes 0)
    one=$(count "$folder/$text.txt" $bytes 1)
    two=$(count "$folder/$text.txt" $bytes 2)
    awk -v text=$text -v bytes=$bytes -v none="$none" -v one="$one" -v two="$two" \
        'BEGIN { printf "| %s | %.1f | %.1f |\n", text, (one - none) / bytes, (two - one) / bytes }'
done
