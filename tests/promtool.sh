#!/bin/sh
# Put Debian's promtool on the PATH for the tests of rules and dashboards, where it is missing and can be had: the
# program alone out of its package, so that no server is installed or started. Never fails: without it those tests are
# skipped, which they say.
command -v promtool >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "no promtool here, and it cannot be had (needs root and apt-get): Prometheus does not judge rules"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A mirror that does not answer must not hold up the tests.
quick="-o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20"
# shellcheck disable=SC2086
if {
    cd "$folder" && timeout 120 apt-get $quick -qq update && timeout 120 apt-get $quick -qq download prometheus &&
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool && install usr/bin/promtool /usr/local/bin
} >/dev/null 2>&1; then
    echo "promtool is in /usr/local/bin, for the tests of rules"
else
    echo "promtool could not be had: Prometheus does not judge rules"
fi
exit 0
