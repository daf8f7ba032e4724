#!/bin/sh
# Install Debian's chromium for the tests in this folder, where it is missing and can be had: 113 MB to fetch, 350 MB on
# disk, 10 to 20 s where the mirror is near. Never fails: without a browser those tests are skipped, which they say.
[ -n "${CHROMIUM:-}" ] && exit 0
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "no chromium here, and it cannot be installed (needs root and apt-get): tests of pages are skipped"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# A mirror that does not answer must not hold up the tests.
quick="-o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20"
# shellcheck disable=SC2086
if { timeout 120 apt-get $quick -qq update && timeout 400 apt-get $quick -qq -y --no-install-recommends install chromium; } \
    >/dev/null 2>&1; then
    echo "installed chromium for the tests of pages"
else
    echo "chromium could not be installed: tests of pages are skipped"
fi
exit 0
