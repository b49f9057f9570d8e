#!/usr/bin/env bash
# Runs the tests of the tokenizer for aarch64 on x86-64, under QEMU: what NEON does is compiled only there. Not part of
# test.sh: the compiler alone is a download of 170 MB, and QEMU is slow. On an aarch64 machine test.sh does all this.
#
#     apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user debian-archive-keyring
#     scripts/test_aarch64.sh
#
# It needs apt, these packages and cargo. The compiler, which needs the standard libraries of both architectures, is the
# one of Debian 12's security updates, unpacked in target/aarch64 without being installed.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/target/aarch64
libraries=$folder/root/usr/lib/x86_64-linux-gnu:$folder/root/lib/x86_64-linux-gnu

# apt with a state of its own: it checks signatures as always, and leaves this machine's packages alone.
apt=$folder/apt
own() {
    "$1" -q -o Dir="$apt" -o Dir::State::status="$apt/var/lib/dpkg/status" -o APT::Architecture=amd64 \
        -o APT::Architectures=amd64,arm64 -o APT::Sandbox::User=root -o Acquire::Languages=none "${@:2}"
}

if [ ! -x "$folder/rustc" ]; then
    rm -rf "$apt" "$folder/root"
    mkdir -p "$apt"/{etc/apt/{sources.list.d,preferences.d},var/{lib/{apt/lists/partial,dpkg},cache/apt/archives/partial}}
    touch "$apt/var/lib/dpkg/status"
    by='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
    cat >"$apt/etc/apt/sources.list" <<END
deb $by http://deb.debian.org/debian bookworm main
deb $by http://deb.debian.org/debian-security bookworm-security main
END
    own apt-get update
    # What the compiler is made of, and its libraries but for those of C and C++, which this machine has.
    packages=$(own apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
        --no-enhances libstd-rust-web-dev | grep -E '^\w' | grep -vxE 'libc6|libgcc-s1|gcc-12-base|libstdc\+\+6')
    (
        cd "$apt/var/cache/apt/archives"
        # shellcheck disable=SC2086  # one word a package
        own apt-get download rustc-web $packages libstd-rust-web-dev:arm64
        for package in *.deb; do
            dpkg -x "$package" "$folder/root"
        done
    )
    rm -r "$apt"
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$libraries" "$folder/root/usr/bin/rustc" >"$folder/rustc"
    chmod +x "$folder/rustc"
fi

export CARGO_TARGET_DIR=$folder/build RUSTC=$folder/rustc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER='qemu-aarch64 -L /usr/aarch64-linux-gnu'
cargo test --target aarch64-unknown-linux-gnu --locked -p recipe-core --no-default-features --lib \
    --test tokenizer_twins "$@"
